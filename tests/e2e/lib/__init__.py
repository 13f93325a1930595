"""What the end-to-end tests are made of: a scripted API, a raw client, the proxy as a process, the test itself."""
