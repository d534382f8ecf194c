"""The API's operations, each as a flow (`hmi_client.flow`)."""
