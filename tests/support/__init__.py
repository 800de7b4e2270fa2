"""What the tests share: worlds of hubs, servers, harnesses."""
