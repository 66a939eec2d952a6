"""What the end-to-end tests and the demo share: a cluster, pictures, and a client that behaves like a router."""
