import copy
from typing import Any, Dict, Optional

CLUB_SHARE = 10


class PlantNursery:
    """The state of the order desk. Money is in cents."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.frost: bool = state.get("frost", False)
        self.plants: Dict[str, Dict[str, Any]] = state.get("plants", {})
        self.customers: Dict[str, Dict[str, Any]] = state.get("customers", {})
        self.orders: Dict[str, Dict[str, Any]] = state.get("orders", {})

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _is_in(self, order_id: str, status: str) -> bool:
        return order_id in self.orders and self.orders[order_id]["status"] == status

    def find_plants(self, text: str) -> Dict[str, Any]:
        """Find plants by a part of their name.

        Args:
            text (str): What to look for; upper and lower case count the same.
        """
        wanted = text.strip().lower()
        found = [{"plant_id": key, **one} for key, one in self.plants.items() if wanted in one["name"].lower()]
        return {"success": True, "plants": found}

    def find_customers(self, text: str) -> Dict[str, Any]:
        """Find customers by a part of their name or town.

        Args:
            text (str): What to look for; upper and lower case count the same.
        """
        wanted = text.strip().lower()
        found = [
            {"customer_id": key, **one}
            for key, one in self.customers.items()
            if wanted in one["name"].lower() or wanted in one["town"].lower()
        ]
        return {"success": True, "customers": found}

    def list_orders(self, customer_id: Optional[str] = None, status: Optional[str] = None) -> Dict[str, Any]:
        """List orders in the order of their numbers.

        Args:
            customer_id (str, optional): Only this customer's.
            status (str, optional): Only orders that are "open", "packed", "sent" or "cancelled".
        """
        found = [
            {"order_id": key, **copy.deepcopy(one)}
            for key, one in self.orders.items()
            if customer_id in (None, one["customer_id"]) and status in (None, one["status"])
        ]
        return {"success": True, "orders": found}

    def get_weather(self) -> Dict[str, Any]:
        """Tell whether there is frost."""
        return {"success": True, "frost": self.frost}

    def open_order(self, customer_id: str) -> Dict[str, Any]:
        """Open an empty order for a customer.

        Args:
            customer_id (str): Who orders, such as "C-1".
        """
        if customer_id not in self.customers:
            return self._refuse(f"There is no customer {customer_id}")
        key = f"O-{len(self.orders) + 1}"
        self.orders[key] = {"customer_id": customer_id, "lines": {}, "status": "open", "total_cents": 0}
        return {"success": True, "order_id": key}

    def add_line(self, order_id: str, plant_id: str, pieces: int) -> Dict[str, Any]:
        """Add pieces of a plant to an open order; they leave the stock.

        Args:
            order_id (str): Which order, such as "O-1".
            plant_id (str): Which plant, such as "N-1".
            pieces (int): How many; must be positive and at most what is in stock.
        """
        if not self._is_in(order_id, "open"):
            return self._refuse(f"There is no open order {order_id}")
        if plant_id not in self.plants:
            return self._refuse(f"There is no plant {plant_id}")
        plant, lines = self.plants[plant_id], self.orders[order_id]["lines"]
        if not 1 <= pieces <= plant["stock"]:
            return self._refuse(f"The pieces must be positive and at most the {plant['stock']} in stock")
        plant["stock"] -= pieces
        lines[plant_id] = lines.get(plant_id, 0) + pieces
        return {"success": True, "pieces": lines[plant_id]}

    def remove_line(self, order_id: str, plant_id: str) -> Dict[str, Any]:
        """Take a plant out of an open order; its pieces go back into stock.

        Args:
            order_id (str): Which order.
            plant_id (str): Which plant; it must be in the order.
        """
        if not self._is_in(order_id, "open"):
            return self._refuse(f"There is no open order {order_id}")
        lines = self.orders[order_id]["lines"]
        if plant_id not in lines:
            return self._refuse(f"The plant {plant_id} is not in this order")
        self.plants[plant_id]["stock"] += lines.pop(plant_id)
        return {"success": True, "lines": len(lines)}

    def pack_order(self, order_id: str) -> Dict[str, Any]:
        """Pack an open order and work out its total.

        Args:
            order_id (str): Which order; it must hold at least one plant.
        """
        if not self._is_in(order_id, "open") or not self.orders[order_id]["lines"]:
            return self._refuse(f"There is no open order {order_id} with plants in it")
        order = self.orders[order_id]
        total = sum(self.plants[key]["price_cents"] * pieces for key, pieces in order["lines"].items())
        if self.customers[order["customer_id"]]["club"]:
            total -= total // CLUB_SHARE + (1 if total % CLUB_SHARE else 0)
        order["total_cents"], order["status"] = total, "packed"
        return {"success": True, "total_cents": total}

    def send_order(self, order_id: str) -> Dict[str, Any]:
        """Send a packed order.

        Args:
            order_id (str): Which order; while there is frost it must not hold a tender plant.
        """
        if not self._is_in(order_id, "packed"):
            return self._refuse(f"There is no packed order {order_id}")
        if self.frost and any(self.plants[key]["tender"] for key in self.orders[order_id]["lines"]):
            return self._refuse(f"There is frost, and the order {order_id} holds a tender plant")
        self.orders[order_id]["status"] = "sent"
        return {"success": True, "order_id": order_id}

    def cancel_order(self, order_id: str) -> Dict[str, Any]:
        """Cancel an order that was not sent; its plants go back into stock.

        Args:
            order_id (str): Which order; it must be open or packed.
        """
        if not (self._is_in(order_id, "open") or self._is_in(order_id, "packed")):
            return self._refuse(f"There is no order {order_id} that can be cancelled")
        order = self.orders[order_id]
        for key, pieces in order["lines"].items():
            self.plants[key]["stock"] += pieces
        order["status"] = "cancelled"
        return {"success": True, "order_id": order_id}

    def restock_plant(self, plant_id: str, pieces: int) -> Dict[str, Any]:
        """Add pieces to the stock of a plant.

        Args:
            plant_id (str): Which plant.
            pieces (int): How many; must be positive and at most 500.
        """
        if plant_id not in self.plants:
            return self._refuse(f"There is no plant {plant_id}")
        if not 1 <= pieces <= 500:
            return self._refuse("The pieces must be positive and at most 500")
        self.plants[plant_id]["stock"] += pieces
        return {"success": True, "stock": self.plants[plant_id]["stock"]}

    def set_price(self, plant_id: str, cents: int) -> Dict[str, Any]:
        """Change the price of a plant.

        Args:
            plant_id (str): Which plant.
            cents (int): The new price; must be positive.
        """
        if plant_id not in self.plants:
            return self._refuse(f"There is no plant {plant_id}")
        if cents < 1:
            return self._refuse("The price must be positive")
        self.plants[plant_id]["price_cents"] = cents
        return {"success": True, "price_cents": cents}
