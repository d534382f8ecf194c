"""As the pages of tenants have them. A line of a table breaks between the day and the time, not within."""

DATE_FORMAT = "j\N{NO-BREAK SPACE}M\N{NO-BREAK SPACE}Y"
DATETIME_FORMAT = f"{DATE_FORMAT}, H:i"
