import pytest
@pytest.mark.django_db
def test_db(): 
    from django.db import connection
    with connection.cursor() as c:
        c.execute("select version()"); print(c.fetchone())
def test_redis(redis_client):
    print(redis_client.info("server")["redis_version"])
