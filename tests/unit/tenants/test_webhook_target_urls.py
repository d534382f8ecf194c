"""Which addresses webhooks may be sent to."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from tenants.base.errors import HmiError
from tenants.webhooks.target_urls import AddressNotAllowed, check_addresses, clean_url, is_allowed

NOT_PUBLIC = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/29", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
    *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
]
NOT_PUBLIC_6 = [
    *("::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32", "2002::/16"),
    *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
]

refused_4 = st.one_of([st.ip_addresses(network=network) for network in NOT_PUBLIC])
refused_6 = st.one_of([st.ip_addresses(network=network) for network in NOT_PUBLIC_6])
public_4 = st.ip_addresses(v=4).filter(
    lambda address: not any(address in ip_network(network) for network in [*NOT_PUBLIC, "192.0.0.0/24"])
)


def disguises(address: IPv4Address) -> list[str]:
    """The IPv6 addresses by which packets reach it, or could."""
    number = int(address)
    return [
        str(IPv6Address(high | number << shift))
        for high, shift in (
            (0xFFFF << 32, 0),
            (0, 0),
            (0x64FF9B << 96, 0),
            (0x64FF9B_0001 << 80, 0),
            (0x2002 << 112, 80),
        )
    ]


@given(refused_4 | refused_6)
def test_an_address_that_is_not_public_is_refused(address: IPv4Address | IPv6Address) -> None:
    assert not is_allowed(str(address))


@given(refused_4.filter(lambda address: isinstance(address, IPv4Address)))
def test_an_ipv6_address_of_a_private_ipv4_address_is_refused(address: IPv4Address) -> None:
    assert not any(map(is_allowed, disguises(address)))


@given(public_4)
def test_a_public_address_is_allowed_also_mapped_and_by_nat64(address: IPv4Address) -> None:
    mapped, _, nat64, *_ = disguises(address)
    assert is_allowed(str(address))
    assert is_allowed(mapped)
    assert is_allowed(nat64)


@given(st.lists(public_4.map(str)), refused_4.map(str), st.integers(min_value=0))
def test_a_name_with_one_private_address_is_refused(good: list[str], bad: str, place: int) -> None:
    good.insert(place % (len(good) + 1), bad)
    with pytest.raises(AddressNotAllowed):
        check_addresses(good)


def test_a_network_in_the_settings_is_allowed(settings: Settings) -> None:
    settings.HMI_WEBHOOK_NETWORKS = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]
    assert is_allowed("10.1.2.3")
    assert is_allowed("::ffff:10.1.2.3")
    assert is_allowed("fd00::1")
    assert not is_allowed("10.2.0.1")
    assert not is_allowed("fe80::1%eth0")


def test_http_goes_only_to_networks_in_the_settings(settings: Settings) -> None:
    settings.HMI_WEBHOOK_NETWORKS = [ip_network("10.1.0.0/16")]
    assert clean_url("http://hooks.test/") == "http://hooks.test/"
    assert check_addresses(["10.1.2.3"], scheme="http") == ["10.1.2.3"]
    with pytest.raises(AddressNotAllowed, match="https"):
        check_addresses(["10.1.2.3", "8.8.8.8"], scheme="http")
    assert clean_url("http://10.1.2.3/")
    with pytest.raises(HmiError, match="https"):
        clean_url("http://8.8.8.8/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks",
        "ftp://example.org/",
        "http://example.org/",
        "https:///hooks",
        "https://user:secret@example.org/",
        "https://example.org/#there",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:169.254.169.254]/latest",
        "https://exa mple.org/",
        "https://example.org/\x00",
        "https://example.org/" + "x" * 2000,
    ],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(HmiError) as refusal:
        clean_url(url)
    assert refusal.value.param == "url"


def test_a_url_is_kept_without_spaces() -> None:
    assert clean_url(" https://example.org:8443/hooks?from=hmi ") == "https://example.org:8443/hooks?from=hmi"
