"""An application and its tests, which need neither Redis nor a coordinator.

python examples/tested_app.py        # or: pytest examples/tested_app.py
"""

from streamshard import Message, StreamApp

app = StreamApp("http://127.0.0.1:8080", redis="redis://127.0.0.1:6379")
receipts = app.producer("receipts", "mailing")
shipped: list[str] = []


@app.listener("orders", group="shipping", redeliver_after=30)
async def ship(message: Message) -> None:
    """Ship an order and publish its receipt; an order without an address stays pending."""
    address = message.text("address", "")
    if not address:
        return
    shipped.append(address)
    await receipts.publish(message.text("order"), {"sent_to": address})
    await message.ack()


def test_an_order_is_shipped_and_its_receipt_published() -> None:
    with app.test() as kit:
        kit.publish("orders", "o-1", {"order": "o-1", "address": "Elm Street 3"})

        assert shipped.pop() == "Elm Street 3"
        assert [record.fields for record in kit.records("receipts")] == [{b"sent_to": b"Elm Street 3"}]
        assert kit.pending("orders", "shipping") == ()


def test_an_order_without_an_address_comes_again_after_half_a_minute() -> None:
    with app.test() as kit:
        kit.publish("orders", "o-2", {"order": "o-2"})
        kit.advance(29)
        assert [each.delivery_count for each in kit.handled] == [1]

        kit.advance(2)

        assert [each.delivery_count for each in kit.handled] == [1, 2]
        assert len(kit.pending("orders", "shipping")) == 1


if __name__ == "__main__":
    test_an_order_is_shipped_and_its_receipt_published()
    test_an_order_without_an_address_comes_again_after_half_a_minute()
    print("both tests pass")
