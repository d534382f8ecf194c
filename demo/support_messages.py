"""Messages to a shop's support, made by rule, and the JSON object that says what each asks for."""

import json
import random
import re
from collections.abc import Iterator
from typing import Final

from demo.datasets import Example
from demo.splits import SPLITS, part_of

SEED: Final = 1
MESSAGES: Final = 400
"""The messages of each split."""
ORDERS: Final = range(1_000, 100_000)

# Each split has sentences, items and names of its own.
REQUESTS: Final = {
    "refund": (
        "I ask you to pay me back.|The quality is poor, so I expect my money back.|"
        "Please send me my money back.|I would like a refund.|I want to be paid back in full.|"
        "Please refund my ITEM, ORDER.|I want to get back what the ITEM cost me, ORDER.|"
        "Please refund the ITEM of ORDER.|I want my money back for the ITEM, ORDER.|"
        "Could you give me back what I paid for ORDER, the ITEM?|Will you repay me?|"
        "Kindly refund the price.|Can you return the amount to my card?|It is broken and I want my money.|"
        "I am not happy with it and ask for a refund."
    ),
    "exchange": (
        "I need a new one in its place.|One side is cracked; may I have another one instead?|"
        "Please swap it for another one.|I would like to exchange it.|"
        "It has a scratch, please send me a new one instead.|Please exchange my ITEM of ORDER.|"
        "Please send a new ITEM in exchange for the faulty one from ORDER.|"
        "I want to exchange the ITEM from ORDER.|Could you replace the ITEM in ORDER with a new one?|"
        "The ITEM (ORDER) is damaged, please swap it.|Is a swap possible?|"
        "Would you exchange it for a smaller size?|Can I trade it for a bigger one?|"
        "It is the wrong colour, I need a different one.|Please replace it."
    ),
    "cancel": (
        "Please call it off.|I would rather cancel this.|Please cancel it.|"
        "I do not need it any more, do not send it.|I changed my mind and want to call it off.|"
        "I want to cancel the ITEM, ORDER.|My ITEM is not needed any longer, please cancel ORDER.|"
        "Please cancel ORDER, the ITEM.|I no longer want the ITEM, so cancel ORDER.|"
        "Do not ship the ITEM of ORDER, I do not need it.|Let us cancel it.|"
        "Please do not deliver it, I have changed my mind.|Please stop the order before it is shipped.|"
        "I ordered by mistake, so please cancel.|Can you take back my order? I found another one."
    ),
    "track": (
        "Do you know where it is now?|How long until it gets here?|When will it arrive?|"
        "Where is my parcel?|It has not come yet.|Has my ITEM been sent? It is ORDER.|"
        "Can you tell me when the ITEM of ORDER will be delivered?|Where is the ITEM from ORDER?|"
        "When do I get my ITEM? It is ORDER.|I still have not received ORDER with the ITEM.|"
        "Is it on its way?|It should have arrived on Friday. Where is it?|Has it been shipped?|"
        "I am still waiting for it.|Which day will it be delivered?"
    ),
    "invoice": (
        "Please mail me a bill.|Our bookkeeping is missing the invoice.|Please send me the invoice.|"
        "I need a bill for my taxes.|Can I have a receipt?|The invoice for the ITEM is missing (ORDER).|"
        "For ORDER, the ITEM, I have no invoice so far.|Please send the invoice for the ITEM, ORDER.|"
        "I need a receipt for ORDER, the ITEM.|Can I get the bill for my ITEM (ORDER)?|"
        "I do not have the invoice.|Would you email the receipt, please?|The invoice was not in the box.|"
        "My accountant asks for the bill.|Could you mail me the invoice as a PDF?"
    ),
}
"""Sentences by the action that they ask for. Those that do not name the order follow one of `FACTS`."""
FACTS: Final = (
    "A few days ago I bought a ITEM, ORDER.|ORDER has one ITEM in it.|"
    "On Monday I bought a ITEM from you, ORDER.|I have a question about ORDER, a ITEM.|ORDER is a ITEM.|"
    "I mean the ITEM, ORDER.|My husband chose a ITEM on your site, ORDER.|"
    "Last week I ordered a ITEM in your shop. It is ORDER.|This is about the ITEM in ORDER.|"
    "For my sister I picked a ITEM, ORDER.|The number of my ITEM is ORDER.|It concerns ORDER, my ITEM.|"
    "I am writing because of ORDER: a ITEM.|Two weeks ago I paid for a ITEM; ORDER.|My ITEM has ORDER.|"
    "I took a ITEM from your shop, ORDER.|I bought your ITEM on 3 May; ORDER.|It is about my ITEM (ORDER).|"
    "We chose the ITEM in ORDER.|I ordered one ITEM. ORDER."
)
REMARKS: Final = (
    "It cost 35 euros.|I spent 120 euros on it.|It was a present.|I paid 49 euros.|"
    "My phone number is 030 5512.|I live in house 7.|We have been customers for 6 years.|"
    "I am a customer since 2019.|I live at 12 Park Street.|You can call me after 5 pm."
)
GREETINGS: Final = (
    "Hi there!|Good evening!|Hi!|Hello!|Dear team!|Good day!|Hi team!|Good morning!|Hey!|Dear all!"
)
CLOSINGS: Final = (
    "Yours, NAME|Many thanks, NAME|Thanks, NAME|Best regards, NAME|NAME|"
    "Cheers, NAME|Sincerely, NAME|Kind regards, NAME|Thank you!|Bye, NAME"
)
NAMES: Final = (
    "Ida Berg|Ruth Adler|Anna Weber|Tom|Lea Klein|Sam|Viktor|Mr Ortiz|Nina|Paul Novak|Ella|Mrs Haddad|"
    "Ms Chen|Omar|Jo Park"
)
ITEMS: Final = (
    "bed sheet|straw hat|desk lamp|blue jacket|coffee grinder|vacuum cleaner|steel kettle|garden hose|"
    "wool blanket|bike helmet|pink hat|bookshelf|tea pot|winter coat|phone case|piano|yellow raincoat|"
    "camping chair|red scarf|bread knife|swivel chair|violin|yoga mat|wall clock|rain jacket|hand cream|"
    "cheese grater|table fan|leather belt|picture frame|wine glass|night light|soup bowl|hair dryer|"
    "green backpack|face mask|purple cushion|rice cooker|tool box|bath towel|beach ball|laptop stand|"
    "floor mat|kitchen scale|silver ring|lunch box|hammock|paper shredder|travel pillow|black umbrella|radio|"
    "cordless screwdriver|water bottle|toaster|drill|watering can|glass vase|keyboard|suitcase|mirror|flute|"
    "cutting board|tent|guitar|printer|bar stool|lawn mower|sofa|wooden toy train|pair of gloves|door bell|"
    "pepper mill|stainless steel pan|set of pencils|white shirt|door mat|grey sweater|running shoe|"
    "baby monitor|chess board"
)


def support_messages(split: str) -> Iterator[Example]:
    """Messages, the actions in turn, with their answers. No order number is in two splits."""
    draw = random.Random(f"{SEED} {split}")  # noqa: S311 - texts, not secrets
    orders = random.Random(SEED).sample(ORDERS, MESSAGES * len(SPLITS))  # noqa: S311
    items, names = (_part(values, split) for values in (ITEMS, NAMES))
    actions = list(REQUESTS)
    for number, order in enumerate(orders[SPLITS.index(split) :: len(SPLITS)]):
        action, item = actions[number % len(actions)], draw.choice(items)
        text = _message(draw, split, action).replace("ITEM", item).replace("NAME", draw.choice(names))
        text = text.replace("ORDER", f"order {draw.choice(('', 'no. ', '#', 'number '))}{order}")
        answer = json.dumps({"action": action, "order": order, "item": item})
        yield Example(_capitalized(text), answer=answer)


def _message(draw: random.Random, split: str, action: str) -> str:
    """The sentences of a message. A fact follows the request in one of five messages that have one."""
    sentences = [draw.choice(_part(REQUESTS[action], split))]
    if "ORDER" not in sentences[0]:
        sentences.insert(draw.random() < 0.2, draw.choice(_part(FACTS, split)))
    if draw.random() < 0.3:
        sentences.append(draw.choice(_part(REMARKS, split)))
    if draw.random() < 0.5:
        sentences.insert(0, draw.choice(_part(GREETINGS, split)))
    if draw.random() < 0.5:
        sentences.append(draw.choice(_part(CLOSINGS, split)))
    return " ".join(sentences)


def _part(values: str, split: str) -> list[str]:
    return part_of(values.split("|"), split)


def _capitalized(text: str) -> str:
    """The text with capital letters at the beginnings of its sentences."""
    return re.sub(r"(^|[.!?] )([a-z])", lambda found: found[1] + found[2].upper(), text)
