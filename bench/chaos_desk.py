"""A desk as large as a storm needs it: one customer with one order for each ticket, made of a number and nothing else.

One order each, so that no refund comes near what an account may get back without approval, and no two tickets touch:
what each has to end as is known beforehand (`crm.ledger.outcomes`).
"""

from callboard.crm.desk import (
    Account,
    Address,
    Desk,
    Order,
    OrderItem,
    OrderStatus,
    Payment,
    PaymentMethod,
    Product,
    Variant,
)

STATUSES: tuple[OrderStatus, ...] = ("delivered", "pending", "delivered", "processed", "delivered", "delivered")
PRICES_CENTS = (4_200, 2_600, 13_900, 8_800, 24_500, 6_400, 9_900)
"""Below and above the 100.00 USD of the policy, which are refunded without asking."""
_GOODS = ("Enamel Kettle", "Oak Stool", "Wool Blanket", "Desk Lamp", "Rain Coat", "Tin Opener", "Reading Chair")


def desk_of(customers: int) -> Desk:
    """A desk with so many customers and orders."""
    products = [Product(f"P{n:03d}", name) for n, name in enumerate(_GOODS)]
    variants = [Variant(f"V{n:03d}", f"P{n:03d}", {"size": "one"}, price, True) for n, price in enumerate(PRICES_CENTS)]
    desk = Desk("chaos", [], [], products, variants, [], [], [])
    for number in range(customers):
        _add(desk, number)
    return desk


def _add(desk: Desk, number: int) -> None:
    account, order, card = f"customer.{number:05d}", f"#C{2 * number + 100_000}", f"card-{number:05d}"
    home = Address(f"{number} Mill Lane", "", "Ghent", "", "BE", "9000")
    which = (number // len(STATUSES) + number) % len(PRICES_CENTS)
    price, status = PRICES_CENTS[which], STATUSES[number % len(STATUSES)]
    desk.accounts.append(Account(account, "Kim", f"Number{number}", f"kim{number:05d}@example.org", home))
    desk.payment_methods.append(PaymentMethod(card, account, "credit_card", "visa", f"{number % 10_000:04d}"))
    desk.orders.append(Order(order, account, status, home, [f"TR{number:07d}"] if status != "pending" else []))
    desk.items.append(OrderItem(order, 1, f"V{which:03d}", price))
    desk.payments.append(Payment(order, card, "charge", price))
