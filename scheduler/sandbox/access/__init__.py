"""Authentication and authorization of the sandbox: certificates, users, RBAC."""
