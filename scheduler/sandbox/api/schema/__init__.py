"""What the server says of itself: discovery and OpenAPI documents."""
