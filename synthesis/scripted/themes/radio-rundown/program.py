import copy
from typing import Any, Dict, List, Optional


class RadioRundown:
    """The state of the desk. Lengths of items are in seconds, those of shows in minutes."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.shows: Dict[str, Dict[str, Any]] = state.get("shows", {})
        self.items: Dict[str, Dict[str, Any]] = state.get("items", {})
        self.presenters: Dict[str, Dict[str, Any]] = state.get("presenters", {})

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _free(self, show_id: str) -> int:
        show = self.shows[show_id]
        return show["minutes"] * 60 - sum(self.items[key]["seconds"] for key in show["running"])

    def _show_of(self, item_id: str) -> Optional[str]:
        for key, show in self.shows.items():
            if item_id in show["running"]:
                return key
        return None

    def _is_locked(self, item_id: str) -> bool:
        show_id = self._show_of(item_id)
        return show_id is not None and self.shows[show_id]["locked"]

    def list_shows(self, open_only: bool = False) -> Dict[str, Any]:
        """List shows with the seconds that are still free.

        Args:
            open_only (bool, optional): Leave out shows that are locked.
        """
        found = [
            {"show_id": key, **copy.deepcopy(show), "free_seconds": self._free(key)}
            for key, show in self.shows.items()
            if not (open_only and show["locked"])
        ]
        return {"success": True, "shows": found}

    def get_show(self, show_id: str) -> Dict[str, Any]:
        """Show a running order with its items.

        Args:
            show_id (str): The show's number, such as "H-1".
        """
        if show_id not in self.shows:
            return self._refuse(f"There is no show {show_id}")
        listed = [{"item_id": key, **self.items[key]} for key in self.shows[show_id]["running"]]
        return {"success": True, "items": listed, "free_seconds": self._free(show_id)}

    def find_items(self, text: str, kind: Optional[str] = None) -> Dict[str, Any]:
        """Find items by a part of their title.

        Args:
            text (str): What to look for; upper and lower case count the same.
            kind (str, optional): Only this kind: "report", "talk" or "music".
        """
        wanted = text.strip().lower()
        found = [
            {"item_id": key, **item, "show_id": self._show_of(key)}
            for key, item in self.items.items()
            if wanted in item["title"].lower() and kind in (None, item["kind"])
        ]
        return {"success": True, "items": found}

    def list_presenters(self, available_only: bool = False) -> Dict[str, Any]:
        """List presenters.

        Args:
            available_only (bool, optional): Leave out who is off sick.
        """
        found = [
            {"presenter_id": key, **one}
            for key, one in self.presenters.items()
            if not (available_only and one["off_sick"])
        ]
        return {"success": True, "presenters": found}

    def mark_ready(self, item_id: str) -> Dict[str, Any]:
        """Mark an item as ready for a show.

        Args:
            item_id (str): The item's number, such as "I-1".
        """
        if item_id not in self.items:
            return self._refuse(f"There is no item {item_id}")
        if self.items[item_id]["ready"]:
            return self._refuse(f"The item {item_id} is ready already")
        self.items[item_id]["ready"] = True
        return {"success": True, "item_id": item_id}

    def cut_item(self, item_id: str, seconds: int) -> Dict[str, Any]:
        """Shorten an item.

        Args:
            item_id (str): Which item.
            seconds (int): Its new length; must be positive and shorter than before.
        """
        if item_id not in self.items:
            return self._refuse(f"There is no item {item_id}")
        if self._is_locked(item_id):
            return self._refuse("The show of this item is locked")
        if not 1 <= seconds < self.items[item_id]["seconds"]:
            return self._refuse(f"The new length must be positive and below {self.items[item_id]['seconds']} seconds")
        self.items[item_id]["seconds"] = seconds
        return {"success": True, "seconds": seconds}

    def place_item(self, show_id: str, item_id: str, position: int) -> Dict[str, Any]:
        """Put a ready item into a show.

        Args:
            show_id (str): Which show; it must not be locked.
            item_id (str): Which item; it must be ready, in no show, and fit in.
            position (int): Its place in the running order; must be positive, and 1 is the top.
        """
        if show_id not in self.shows or self.shows[show_id]["locked"]:
            return self._refuse(f"There is no open show {show_id}")
        if item_id not in self.items or not self.items[item_id]["ready"]:
            return self._refuse(f"There is no ready item {item_id}")
        if self._show_of(item_id):
            return self._refuse(f"The item {item_id} is in the show {self._show_of(item_id)}")
        running: List[str] = self.shows[show_id]["running"]
        if not 1 <= position <= len(running) + 1:
            return self._refuse(f"The position must be positive and no more than {len(running) + 1}")
        if self.items[item_id]["seconds"] > self._free(show_id):
            return self._refuse(f"Only {self._free(show_id)} seconds are free")
        running.insert(position - 1, item_id)
        return {"success": True, "free_seconds": self._free(show_id)}

    def drop_item(self, item_id: str) -> Dict[str, Any]:
        """Take an item out of its show.

        Args:
            item_id (str): Which item; its show must not be locked.
        """
        show_id = self._show_of(item_id)
        if show_id is None:
            return self._refuse(f"The item {item_id} is in no show")
        if self.shows[show_id]["locked"]:
            return self._refuse(f"The show {show_id} is locked")
        self.shows[show_id]["running"].remove(item_id)
        return {"success": True, "free_seconds": self._free(show_id)}

    def assign_presenter(self, item_id: str, presenter_id: str) -> Dict[str, Any]:
        """Give an item to a presenter.

        Args:
            item_id (str): Which item; its show must not be locked.
            presenter_id (str): Who reads it; not somebody who is off sick.
        """
        if item_id not in self.items:
            return self._refuse(f"There is no item {item_id}")
        if presenter_id not in self.presenters or self.presenters[presenter_id]["off_sick"]:
            return self._refuse(f"There is no presenter {presenter_id} at work")
        if self._is_locked(item_id):
            return self._refuse("The show of this item is locked")
        if self.items[item_id]["presenter_id"] == presenter_id:
            return self._refuse(f"{presenter_id} has this item already")
        self.items[item_id]["presenter_id"] = presenter_id
        return {"success": True, "item_id": item_id}

    def set_off_sick(self, presenter_id: str, off_sick: bool) -> Dict[str, Any]:
        """Say that a presenter is off sick, or back at work.

        Args:
            presenter_id (str): Who, such as "R-1".
            off_sick (bool): Whether the presenter is off sick from now on.
        """
        if presenter_id not in self.presenters:
            return self._refuse(f"There is no presenter {presenter_id}")
        if self.presenters[presenter_id]["off_sick"] == off_sick:
            return self._refuse(f"That is so already for {presenter_id}")
        self.presenters[presenter_id]["off_sick"] = off_sick
        return {"success": True, "off_sick": off_sick}

    def lock_show(self, show_id: str) -> Dict[str, Any]:
        """Lock a show that is complete.

        Args:
            show_id (str): Which show; each of its items needs a presenter who is at work.
        """
        if show_id not in self.shows or self.shows[show_id]["locked"]:
            return self._refuse(f"There is no open show {show_id}")
        for key in self.shows[show_id]["running"]:
            reader = self.items[key]["presenter_id"]
            if reader is None or self.presenters[reader]["off_sick"]:
                return self._refuse(f"The item {key} has no presenter at work")
        self.shows[show_id]["locked"] = True
        return {"success": True, "show_id": show_id}
