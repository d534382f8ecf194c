"""Files, calls and clicks as people have them: each test is a fault that was seen in use, or its sibling."""
