"""Sentences about appointments, made by rule, with the words that name a person, a place and a time."""

import calendar
import random
from collections.abc import Iterator
from typing import Final

from demo.splits import part_of

SEED: Final = 1
SENTENCES: Final = 1_000
"""The sentences of each split."""

# Each split has sentences, persons and places of its own.
PATTERNS: Final = (
    "Remind me to call PERSON TIME.",
    "Lunch with PERSON in PLACE TIME",
    "PERSON arrives from PLACE TIME.",
    "Can we move the meeting with PERSON to TIME?",
    "Book a flight to PLACE for PERSON TIME.",
    "Please tell PERSON that the train to PLACE leaves TIME.",
    "I will be in PLACE TIME, so PERSON has the keys.",
    "Dinner TIME at the station in PLACE.",
    "The interview with PERSON is TIME.",
    "PERSON and PERSON are getting married in PLACE TIME.",
    "Ask PERSON whether the hotel in PLACE is free TIME.",
    "Cancel my appointment with PERSON TIME.",
    "We meet PERSON at the office in PLACE TIME.",
    "Did PERSON say anything about the trip to PLACE?",
    "TIME I have to send the contract to PERSON.",
    "Our team in PLACE expects your answer TIME.",
    "Pick up the children from PERSON TIME.",
    "PERSON moved from PLACE to PLACE last year.",
    "The concert of PERSON in PLACE starts TIME.",
    "Do not forget the birthday of PERSON TIME!",
    "Write to PERSON before the conference in PLACE.",
    "Is there a bus from PLACE to PLACE TIME?",
    "Set up a call between PERSON and PERSON TIME.",
    "The parcel for PERSON should reach PLACE TIME.",
    "TIME there is a workshop in PLACE, and PERSON gives the first talk.",
    "I promised PERSON to finish the report TIME.",
    "Reserve a table for four in PLACE TIME, please.",
    "My cousin PERSON opens a bakery in PLACE TIME.",
    "Wake me up TIME.",
    "PERSON wants to see the flat in PLACE TIME.",
    "Who picks up PERSON at the airport of PLACE?",
    "Doctor PERSON can see you TIME.",
    "Send the photos from PLACE to PERSON TIME.",
    "The shop in PLACE is closed TIME.",
    "Invite PERSON and PERSON to the party TIME.",
)
FIRST_NAMES: Final = (
    "Anna|Ben|Carla|David|Elena|Felix|Grace|Hassan|Ingrid|James|Keiko|Lucas|Maria|Nadia|Oliver|Priya|"
    "Quentin|Rosa|Stefan|Tara|Umar|Vera|Walter|Xenia|Yusuf|Zoe|Amara|Bruno|Chloe|Dmitri|Emma|Farid|"
    "Gianni|Hannah|Ivan|Julia|Karim|Laura|Miguel|Nora"
)
LAST_NAMES: Final = (
    "Rossi|Smith|Müller|Garcia|Novak|Tanaka|Okafor|Svensson|Dubois|Kowalski|Silva|Khan|Jensen|Murphy|"
    "Costa|Weber|Lopez|Ivanova|Brown|Nguyen"
)
PLACES: Final = (
    "Berlin|New York|Paris|Oslo|Buenos Aires|Madrid|Cairo|Tokyo|Sydney|Rome|Los Angeles|Dublin|"
    "Vienna|Nairobi|Mexico City|Prague|Lisbon|Hong Kong|Chicago|Warsaw|Helsinki|Cape Town|Athens|"
    "Mumbai|Toronto|Zurich|Lima|San Francisco|Brussels|Seoul|Porto|Kuala Lumpur|Geneva|Boston|"
    "Stockholm|Tel Aviv|Naples|Hamburg|Bogota|Copenhagen"
)


def sentences(split: str) -> Iterator[list[tuple[str, str]]]:
    """The words of a sentence, with IOB2 tags."""
    draw = random.Random(f"{SEED} {split}")  # noqa: S311 - texts, not secrets
    patterns = part_of(PATTERNS, split)
    first_names, last_names, places = (
        part_of(names.split("|"), split) for names in (FIRST_NAMES, LAST_NAMES, PLACES)
    )
    for _ in range(SENTENCES):
        words: list[tuple[str, str]] = []
        for word in draw.choice(patterns).replace(",", " ,").split():
            kind = word.rstrip(".?!")
            if kind == "PERSON":
                named = [draw.choice(first_names)] + [draw.choice(last_names)] * draw.randrange(2)
            elif kind == "PLACE":
                named = draw.choice(places).split()
            elif kind == "TIME":
                named = _time(draw).split()
                named[0] = named[0] if words else named[0].capitalize()
            else:
                words.append((kind, "O"))
                named = []
            words += [(name, f"{'I' if number else 'B'}-{kind}") for number, name in enumerate(named)]
            words += [(sign, "O") for sign in word[len(kind) :]]
        yield words


def _time(draw: random.Random) -> str:
    """A day, a time of day, or both."""
    weekday, month = draw.choice(calendar.day_name), draw.choice(calendar.month_name[1:])
    day = draw.choice(
        (
            "tomorrow",
            "tonight",
            f"on {weekday}",
            f"next {weekday}",
            f"on {draw.randint(1, 28)} {month}",
            f"on {month} {draw.randint(1, 28)}",
            f"in {draw.randint(2, 9)} {draw.choice(('days', 'weeks', 'hours'))}",
        )
    )
    clock = draw.choice(
        (
            f"at {draw.randint(1, 12)} {draw.choice(('am', 'pm'))}",
            f"at {draw.randint(8, 21)}:{draw.choice(('00', '15', '30', '45'))}",
            draw.choice(("at noon", "in the morning", "in the evening", "after lunch")),
        )
    )
    return draw.choice((day, clock, f"{day} {clock}", f"{day} {clock}"))
