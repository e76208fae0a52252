"""Who may reach the sandbox, and what they may do: certificates, users, RBAC."""
