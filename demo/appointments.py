"""Sentences about appointments, made by rule, with the words that name a person, a place and a time."""

import calendar
import random
from collections.abc import Iterator
from typing import Final

from demo.splits import part_of

SEED: Final = 1
SENTENCES: Final = 1_000
"""The sentences of each split."""

# Each split has patterns, persons and places of its own.
PATTERNS: Final = (
    "EVENT with PERSON in PLACE TIME",
    "PERSON arrives from PLACE TIME.",
    "Can we move the EVENT with PERSON to TIME?",
    "Remind me to ACTION PERSON TIME.",
    "Book a flight to PLACE for PERSON TIME.",
    "Please ACTION PERSON before the EVENT in PLACE.",
    "I will be in PLACE TIME, so PERSON has the keys.",
    "EVENT TIME at the station in PLACE.",
    "The EVENT with PERSON is TIME.",
    "PERSON and PERSON are getting married in PLACE TIME.",
    "Ask PERSON whether the hotel in PLACE is free TIME.",
    "Cancel my EVENT with PERSON TIME.",
    "We ACTION PERSON at the office in PLACE TIME.",
    "Did PERSON say anything about the trip to PLACE?",
    "TIME I have to ACTION PERSON.",
    "Our team in PLACE expects your answer TIME.",
    "I want to ACTION PERSON and PERSON TIME.",
    "PERSON moved from PLACE to PLACE last year.",
    "The EVENT of PERSON in PLACE starts TIME.",
    "Do not forget to ACTION PERSON TIME!",
    "Is there a bus from PLACE to PLACE TIME?",
    "Set up the EVENT between PERSON and PERSON TIME.",
    "The parcel for PERSON should reach PLACE TIME.",
    "TIME we have the EVENT in PLACE, and PERSON gives the first talk.",
    "I promised to ACTION PERSON TIME.",
    "Reserve a table for four in PLACE TIME, please.",
    "My cousin PERSON opens a shop in PLACE TIME.",
    "Wake me up TIME.",
    "PERSON wants to see PLACE before the EVENT TIME.",
    "Who picks up PERSON at the airport of PLACE?",
    "Doctor PERSON can see you TIME.",
    "Send the photos of PLACE to PERSON TIME.",
    "The office in PLACE is closed TIME.",
    "Invite PERSON and PERSON to the EVENT TIME.",
    "When does PERSON fly to PLACE?",
    "PERSON will ACTION PERSON TIME.",
    "Let us ACTION PERSON in PLACE TIME.",
    "Has PERSON been to PLACE yet?",
    "I missed the EVENT in PLACE, can PERSON send me the notes TIME?",
    "PERSON, are you free for the EVENT TIME?",
    "Where in PLACE does PERSON live?",
    "How far is PLACE from PLACE?",
    "Tell PERSON that I am in PLACE TIME.",
    "Thanks for the EVENT, PERSON!",
    "We leave PLACE TIME and reach PLACE the day after.",
)
EVENTS: Final = (
    "lunch|dinner|meeting|call|interview|concert|workshop|training|coffee|birthday|wedding|lesson|party|"
    "conference|appointment|match|exam|review|picnic|briefing"
)
ACTIONS: Final = (
    "call|meet|write to|visit|pick up|thank|pay|invite|help|ask|congratulate|drive|remind|answer|greet"
)
FIRST_NAMES: Final = (
    "Anna|Ben|Carla|David|Elena|Felix|Grace|Hassan|Ingrid|James|Keiko|Lucas|Maria|Nadia|Oliver|Priya|"
    "Quentin|Rosa|Stefan|Tara|Umar|Vera|Walter|Xenia|Yusuf|Zoe|Amara|Bruno|Chloe|Dmitri|Emma|Farid|"
    "Gianni|Hannah|Ivan|Julia|Karim|Laura|Miguel|Nora|Omar|Paula|Rafael|Sarah|Thomas|Ursula|Victor|"
    "Wendy|Adam|Bianca|Carlos|Diana|Erik|Fatima|George|Helen|Igor|Jane|Kevin|Lena|Marco|Nina|Otto|"
    "Peter|Ravi|Sofia|Tim|Valentina|William|Yuki|Alice|Boris|Clara|Daniel|Eva|Frank|Gloria|Henry"
)
LAST_NAMES: Final = (
    "Rossi|Smith|Müller|Garcia|Novak|Tanaka|Okafor|Svensson|Dubois|Kowalski|Silva|Khan|Jensen|Murphy|"
    "Costa|Weber|Lopez|Ivanova|Brown|Nguyen|Martin|Schmidt|Ferrari|Johnson|Petrov|Yamamoto|Hansen|"
    "Moreau|Patel|Wilson"
)
PLACES: Final = (
    "Berlin|New York|Paris|Oslo|Buenos Aires|Madrid|Cairo|Tokyo|Sydney|Rome|Los Angeles|Dublin|"
    "Vienna|Nairobi|Mexico City|Prague|Lisbon|Hong Kong|Chicago|Warsaw|Helsinki|Cape Town|Athens|"
    "Mumbai|Toronto|Zurich|Lima|San Francisco|Brussels|Seoul|Porto|Kuala Lumpur|Geneva|Boston|"
    "Stockholm|Tel Aviv|Naples|Hamburg|Bogota|Copenhagen|Munich|Barcelona|Delhi|Montreal|Milan|"
    "Istanbul|Santiago|Budapest|Lyon|Seattle|Manchester|Rio de Janeiro|Dallas|Shanghai|Krakow|"
    "Edinburgh|Florence|Houston|Lagos|Melbourne|Rotterdam|Salzburg|Vancouver|Venice|Singapore|"
    "Marseille|Denver|Bangkok|Antwerp|Havana"
)


def sentences(split: str) -> Iterator[list[tuple[str, str]]]:
    """The words of a sentence, with IOB2 tags."""
    draw = random.Random(f"{SEED} {split}")  # noqa: S311 - texts, not secrets
    patterns, first_names, last_names, places, events, actions = (
        part_of(values, split)
        for values in (
            PATTERNS,
            *(names.split("|") for names in (FIRST_NAMES, LAST_NAMES, PLACES, EVENTS, ACTIONS)),
        )
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
                named = []
                plain = draw.choice({"EVENT": events, "ACTION": actions}.get(kind, [kind])).split()
                words += [(part, "O") for part in plain]
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
