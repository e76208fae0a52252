"""The API server, controllers and drivers of a simulation, in memory."""
