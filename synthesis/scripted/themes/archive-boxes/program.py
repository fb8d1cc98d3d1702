import copy
from typing import Any, Dict, Optional


class RecordsArchive:
    """The state of the archive."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.year: int = state.get("year", 2026)
        self.files: Dict[str, Dict[str, Any]] = state.get("files", {})
        self.boxes: Dict[str, Dict[str, Any]] = state.get("boxes", {})

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _free(self, box_id: str) -> int:
        inside = [one for one in self.files.values() if one["box_id"] == box_id and one["status"] != "destroyed"]
        return self.boxes[box_id]["room"] - len(inside)

    def _kept_back(self, file_id: str) -> str:
        """Why a file cannot be taken out of its box, or an empty text."""
        if file_id not in self.files or self.files[file_id]["status"] != "filed":
            return f"There is no filed file {file_id}"
        if self.boxes[self.files[file_id]["box_id"]]["sealed"]:
            return f"The box of the file {file_id} is sealed"
        return ""

    def find_files(self, text: str) -> Dict[str, Any]:
        """Find files by a part of their title.

        Args:
            text (str): What to look for; upper and lower case count the same.
        """
        wanted = text.strip().lower()
        found = [{"file_id": key, **one} for key, one in self.files.items() if wanted in one["title"].lower()]
        return {"success": True, "files": copy.deepcopy(found)}

    def list_files(self, department: Optional[str] = None, box_id: Optional[str] = None) -> Dict[str, Any]:
        """List files, the oldest first.

        Args:
            department (str, optional): Only files of this department.
            box_id (str, optional): Only files that belong into this box.
        """
        found = [
            {"file_id": key, **one}
            for key, one in self.files.items()
            if department in (None, one["department"]) and box_id in (None, one["box_id"])
        ]
        found.sort(key=lambda one: (one["closed_year"], one["file_id"]))
        return {"success": True, "files": found}

    def list_boxes(self, open_only: bool = False) -> Dict[str, Any]:
        """List boxes with their free room.

        Args:
            open_only (bool, optional): Leave out boxes that are sealed.
        """
        found = [
            {"box_id": key, **box, "free": self._free(key)}
            for key, box in self.boxes.items()
            if not (open_only and box["sealed"])
        ]
        return {"success": True, "boxes": found}

    def get_year(self) -> Dict[str, Any]:
        """Tell which year it is."""
        return {"success": True, "year": self.year}

    def lend_file(self, file_id: str, borrower: str) -> Dict[str, Any]:
        """Lend a file to somebody.

        Args:
            file_id (str): Which file; it must be filed, not on hold, and in a box that is not sealed.
            borrower (str): The name of whoever takes it.
        """
        problem = self._kept_back(file_id)
        if problem:
            return self._refuse(problem)
        if self.files[file_id]["on_hold"]:
            return self._refuse(f"The file {file_id} is on hold")
        if not borrower.strip():
            return self._refuse("Say who borrows the file")
        self.files[file_id]["status"], self.files[file_id]["borrower"] = "lent", borrower
        return {"success": True, "file_id": file_id}

    def take_back_file(self, file_id: str) -> Dict[str, Any]:
        """Take a lent file back into its box.

        Args:
            file_id (str): Which file; it must be lent, and its box not sealed.
        """
        if file_id not in self.files or self.files[file_id]["status"] != "lent":
            return self._refuse(f"There is no lent file {file_id}")
        if self.boxes[self.files[file_id]["box_id"]]["sealed"]:
            return self._refuse(f"The box of the file {file_id} is sealed")
        self.files[file_id]["status"], self.files[file_id]["borrower"] = "filed", ""
        return {"success": True, "file_id": file_id}

    def move_file(self, file_id: str, box_id: str) -> Dict[str, Any]:
        """Move a filed file to another box.

        Args:
            file_id (str): Which file; its box must not be sealed.
            box_id (str): Where to: a box that is not sealed and has room.
        """
        problem = self._kept_back(file_id)
        if problem:
            return self._refuse(problem)
        if box_id not in self.boxes or self.boxes[box_id]["sealed"]:
            return self._refuse(f"There is no open box {box_id}")
        if self.files[file_id]["box_id"] == box_id:
            return self._refuse(f"The file {file_id} is in this box already")
        if self._free(box_id) < 1:
            return self._refuse(f"The box {box_id} is full")
        self.files[file_id]["box_id"] = box_id
        return {"success": True, "free": self._free(box_id)}

    def destroy_file(self, file_id: str) -> Dict[str, Any]:
        """Destroy a file that need not be kept any longer.

        Args:
            file_id (str): Which file; filed, not on hold, its box not sealed, and its years over.
        """
        problem = self._kept_back(file_id)
        if problem:
            return self._refuse(problem)
        one = self.files[file_id]
        if one["on_hold"]:
            return self._refuse(f"The file {file_id} is on hold")
        if self.year - one["closed_year"] <= one["keep_years"]:
            return self._refuse(f"The file {file_id} must still be kept")
        one["status"] = "destroyed"
        return {"success": True, "file_id": file_id}

    def set_hold(self, file_id: str, on_hold: bool) -> Dict[str, Any]:
        """Put a file on hold, or release it.

        Args:
            file_id (str): Which file; it must not be destroyed.
            on_hold (bool): Whether it is on hold from now on.
        """
        if file_id not in self.files or self.files[file_id]["status"] == "destroyed":
            return self._refuse(f"There is no file {file_id}")
        if self.files[file_id]["on_hold"] == on_hold:
            return self._refuse(f"That is so already for {file_id}")
        self.files[file_id]["on_hold"] = on_hold
        return {"success": True, "on_hold": on_hold}

    def seal_box(self, box_id: str) -> Dict[str, Any]:
        """Seal a box; nothing goes in or comes out any more.

        Args:
            box_id (str): Which box; none of its files may be lent.
        """
        if box_id not in self.boxes or self.boxes[box_id]["sealed"]:
            return self._refuse(f"There is no open box {box_id}")
        if any(one["box_id"] == box_id and one["status"] == "lent" for one in self.files.values()):
            return self._refuse(f"A file of the box {box_id} is lent")
        self.boxes[box_id]["sealed"] = True
        return {"success": True, "box_id": box_id}
