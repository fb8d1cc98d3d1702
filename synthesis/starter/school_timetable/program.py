"""The office of a small secondary school: courses, weekly lessons, rooms, enrolments, cover for absences and exams."""

import copy
import datetime
import unicodedata
from typing import Any, Dict, List, Literal, Optional

DAYS = ("mon", "tue", "wed", "thu", "fri")
COVERS_A_WEEK = 2
NOTICE_DAYS = 7
EXAMS_A_DAY = 1
EXAMS_A_WEEK = 2

KINDS = {
    "date": (str, (), "a day as YYYY-MM-DD"),
    "day": (str, DAYS, "text"),
    "kind": (str, ("classroom", "lab", "computer", "studio", "hall"), "text"),
    "reason": (str, ("illness", "training", "trip"), "text"),
    "period": (int, (), "a whole number"),
    "year": (int, (), "a whole number"),
}


class SchoolTimetable:
    """Built from an initial-state dict; every attribute is part of the state. Lessons repeat every week."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-11-09")
        self.term_end: str = state.get("term_end", "2026-12-18")
        self.changes_until: str = state.get("changes_until", "2026-11-13")
        self.periods: Dict[str, Any] = state.get("periods", {})
        self.teachers: Dict[str, Any] = state.get("teachers", {})
        self.rooms: Dict[str, Any] = state.get("rooms", {})
        self.courses: Dict[str, Any] = state.get("courses", {})
        self.lessons: Dict[str, Any] = state.get("lessons", {})
        self.pupils: Dict[str, Any] = state.get("pupils", {})
        self.enrolments: Dict[str, List[str]] = state.get("enrolments", {})
        self.absences: Dict[str, Any] = state.get("absences", {})
        self.covers: Dict[str, Any] = state.get("covers", {})
        self.exams: Dict[str, Any] = state.get("exams", {})
        self.next_absence: int = state.get("next_absence", 1)
        self.next_cover: int = state.get("next_cover", 1)
        self.next_exam: int = state.get("next_exam", 1)

    # Helpers. None of them is a tool: only the tools of the manifest can be called.

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _plain(self, text: str) -> str:
        """Lower case without accents, so that "lea" finds "Léa"."""
        parts = unicodedata.normalize("NFKD", text.strip().lower())
        return "".join(part for part in parts if not unicodedata.combining(part))

    def _misfit(self, needed: Dict[str, Any], optional: Optional[Dict[str, Any]] = None) -> str:
        """Which argument is not of the kind its name asks for, or an empty text."""
        given = {name: value for name, value in (optional or {}).items() if value is not None}
        for name, value in {**needed, **given}.items():
            kind, choices, words = KINDS.get(name, (str, (), "text"))
            if type(value) is not kind:
                return f"{name} must be {words}"
            if choices and value not in choices:
                return f"{name} must be one of {', '.join(choices)}"
            if name == "date":
                try:
                    datetime.datetime.strptime(value, "%Y-%m-%d")
                except ValueError:
                    return f"date must be {words}"
                if len(value) != 10:
                    return f"date must be {words}"
            if name == "period" and str(value) not in self.periods:
                return f"period must be from 1 to {len(self.periods)}"
        return ""

    def _date(self, text: str) -> datetime.date:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()

    def _weekday(self, date: str) -> str:
        """The school day's short name, or an empty text for a weekend."""
        number = self._date(date).weekday()
        return DAYS[number] if number < len(DAYS) else ""

    def _week(self, date: str) -> Any:
        return self._date(date).isocalendar()[:2]

    def _no_school(self, date: str) -> str:
        if date < self.today:
            return f"{date} is over"
        if date > self.term_end:
            return f"The term ends on {self.term_end}"
        if not self._weekday(date):
            return f"{date} is not a school day"
        return ""

    def _lesson_teacher(self, lesson: Dict[str, Any]) -> str:
        return self.courses[lesson["course_id"]]["teacher_id"]

    def _absent(self, teacher_id: str, date: str) -> bool:
        return any((entry["teacher_id"], entry["date"]) == (teacher_id, date) for entry in self.absences.values())

    def _cover_of(self, lesson_id: str, date: str) -> str:
        for key, entry in self.covers.items():
            if (entry["lesson_id"], entry["date"]) == (lesson_id, date):
                return key
        return ""

    def _covers_in_week(self, teacher_id: str, date: str) -> int:
        week = self._week(date)
        return sum(
            entry["teacher_id"] == teacher_id and self._week(entry["date"]) == week for entry in self.covers.values()
        )

    def _planned(self, skip: str = "") -> Dict[str, Any]:
        return {key: exam for key, exam in self.exams.items() if exam["status"] == "planned" and key != skip}

    def _lessons_of(self, pupil_id: str, skip_course: str = "") -> List[Dict[str, Any]]:
        return [
            lesson
            for lesson in self.lessons.values()
            if lesson["course_id"] != skip_course and pupil_id in self.enrolments.get(lesson["course_id"], [])
        ]

    def _teacher_busy(self, teacher_id: str, date: str, period: int, skip_course: str = "", skip_exam: str = "") -> str:
        """Why a teacher cannot be somewhere at that time on that date, or an empty text."""
        teacher, day = self.teachers[teacher_id], self._weekday(date)
        if day not in teacher["days"]:
            return f"{teacher['name']} does not work on {date}"
        if self._absent(teacher_id, date):
            return f"{teacher['name']} is absent on {date}"
        for lesson in self.lessons.values():
            if (lesson["day"], lesson["period"]) == (day, period) and lesson["course_id"] != skip_course:
                if self._lesson_teacher(lesson) == teacher_id:
                    return f"{teacher['name']} teaches {lesson['course_id']} then"
        for entry in self.covers.values():
            if (entry["teacher_id"], entry["date"]) == (teacher_id, date):
                if self.lessons[entry["lesson_id"]]["period"] == period:
                    return f"{teacher['name']} covers {entry['lesson_id']} then"
        for key, exam in self._planned(skip_exam).items():
            if (exam["invigilator_id"], exam["date"], exam["period"]) == (teacher_id, date, period):
                return f"{teacher['name']} invigilates {key} then"
        return ""

    def _cover_obstacle(self, teacher_id: str, lesson_id: str, date: str) -> str:
        lesson, teacher = self.lessons[lesson_id], self.teachers[teacher_id]
        busy = self._teacher_busy(teacher_id, date, lesson["period"])
        if busy:
            return busy
        done = self._covers_in_week(teacher_id, date)
        if done >= COVERS_A_WEEK:
            return f"{teacher['name']} already covers {done} lessons that week"
        subject = self.courses[lesson["course_id"]]["subject"]
        if self.rooms[lesson["room_id"]]["kind"] == "lab" and subject not in teacher["subjects"]:
            return f"A lesson in a lab is covered only by somebody who teaches {subject}"
        return ""

    def _room_misfit(self, room_id: str, course_id: str, heads: int) -> str:
        """Why a room does not suit the pupils of a course, or an empty text."""
        room = self.rooms[room_id]
        if heads > room["seats"]:
            return f"{room['name']} has {room['seats']} seats, {course_id} has {heads} pupils"
        if not room["step_free"]:
            for pupil_id in self.enrolments.get(course_id, []):
                if self.pupils[pupil_id]["step_free"]:
                    return f"{self.pupils[pupil_id]['name']} needs a step-free room, {room['name']} is not"
        return ""

    def _slot_obstacle(self, lesson_id: str, day: str, period: int, room_id: str) -> str:
        """Why a lesson cannot take place at that time of the week in that room, or an empty text."""
        lesson = self.lessons[lesson_id]
        course_id = lesson["course_id"]
        course, room = self.courses[course_id], self.rooms[room_id]
        teacher = self.teachers[course["teacher_id"]]
        if room["kind"] != course["room_kind"]:
            return f"{course_id} needs a {course['room_kind']}, {room['name']} is a {room['kind']}"
        misfit = self._room_misfit(room_id, course_id, len(self.enrolments.get(course_id, [])))
        if misfit:
            return misfit
        if day not in teacher["days"]:
            return f"{teacher['name']} does not work on {day}"
        enrolled = set(self.enrolments.get(course_id, []))
        for key, other in self.lessons.items():
            if key == lesson_id or (other["day"], other["period"]) != (day, period):
                continue
            if other["room_id"] == room_id:
                return f"{room['name']} is taken by {other['course_id']} then"
            if self._lesson_teacher(other) == course["teacher_id"]:
                return f"{teacher['name']} teaches {other['course_id']} then"
            shared = sorted(enrolled & set(self.enrolments.get(other["course_id"], [])))
            if shared:
                return f"{self.pupils[shared[0]]['name']} has {other['course_id']} then"
        return self._dated_obstacle(course_id, day, period, room_id)

    def _dated_obstacle(self, course_id: str, day: str, period: int, room_id: str) -> str:
        """Exams and covers from today on that stand in the way of a lesson at that time of the week."""
        teacher_id = self.courses[course_id]["teacher_id"]
        for key, exam in self._planned().items():
            if exam["date"] < self.today or exam["course_id"] == course_id:
                continue
            if (self._weekday(exam["date"]), exam["period"]) == (day, period):
                if exam["room_id"] == room_id:
                    return f"Exam {key} is set in {self.rooms[room_id]['name']} on {exam['date']}"
                if exam["invigilator_id"] == teacher_id:
                    return f"{self.teachers[teacher_id]['name']} invigilates {key} on {exam['date']}"
        for entry in self.covers.values():
            if entry["date"] < self.today or entry["teacher_id"] != teacher_id:
                continue
            if (self._weekday(entry["date"]), self.lessons[entry["lesson_id"]]["period"]) == (day, period):
                return f"{self.teachers[teacher_id]['name']} covers {entry['lesson_id']} on {entry['date']}"
        return ""

    def _too_many_exams(self, pupil_id: str, date: str, skip: str = "") -> str:
        """Why one more exam on that date is too much for a pupil, or an empty text."""
        mine = [
            exam["date"]
            for exam in self._planned(skip).values()
            if pupil_id in self.enrolments.get(exam["course_id"], [])
        ]
        name = self.pupils[pupil_id]["name"]
        if mine.count(date) >= EXAMS_A_DAY:
            return f"{name} already has an exam on {date}"
        if sum(self._week(other) == self._week(date) for other in mine) >= EXAMS_A_WEEK:
            return f"{name} already has {EXAMS_A_WEEK} exams in the week of {date}"
        return ""

    def _short_notice(self, date: str) -> str:
        if (self._date(date) - self._date(self.today)).days < NOTICE_DAYS:
            return f"The time of an exam is announced at least {NOTICE_DAYS} days ahead"
        return ""

    def _exam_obstacle(
        self, course_id: str, date: str, period: int, room_id: str, invigilator_id: str, skip: str = ""
    ) -> str:
        """Why an exam cannot be written like that, or an empty text."""
        closed = self._no_school(date)
        if closed:
            return closed
        enrolled = self.enrolments.get(course_id, [])
        misfit = self._room_misfit(room_id, course_id, len(enrolled))
        if misfit:
            return misfit
        for lesson in self.lessons.values():
            if (lesson["day"], lesson["period"], lesson["room_id"]) == (self._weekday(date), period, room_id):
                if lesson["course_id"] != course_id:
                    return f"{self.rooms[room_id]['name']} is taken by {lesson['course_id']} then"
        for key, exam in self._planned(skip).items():
            if (exam["date"], exam["period"], exam["room_id"]) == (date, period, room_id):
                return f"{self.rooms[room_id]['name']} is taken by exam {key} then"
        for pupil_id in enrolled:
            burden = self._too_many_exams(pupil_id, date, skip)
            if burden:
                return burden
        return self._teacher_busy(invigilator_id, date, period, skip_course=course_id, skip_exam=skip)

    def _unknown(self, **ids: Optional[str]) -> str:
        """The first id that stands for nothing, in words, or an empty text."""
        tables = {
            "pupil_id": ("pupil", self.pupils),
            "course_id": ("course", self.courses),
            "lesson_id": ("lesson", self.lessons),
            "teacher_id": ("teacher", self.teachers),
            "invigilator_id": ("teacher", self.teachers),
            "room_id": ("room", self.rooms),
            "exam_id": ("exam", self.exams),
        }
        for name, value in ids.items():
            words, table = tables[name]
            if value is not None and value not in table:
                return f"No {words} {value}"
        return ""

    def _lesson_row(self, lesson_id: str) -> Dict[str, Any]:
        lesson = self.lessons[lesson_id]
        return {
            "lesson_id": lesson_id,
            **lesson,
            "start": self.periods[str(lesson["period"])]["start"],
            "end": self.periods[str(lesson["period"])]["end"],
            "room": self.rooms[lesson["room_id"]]["name"],
            "teacher_id": self._lesson_teacher(lesson),
        }

    def _in_order(self, rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        return sorted(rows, key=lambda row: (DAYS.index(row["day"]), row["period"], row["lesson_id"]))

    # Tools that look.

    def find_pupils(self, text: str) -> Dict[str, Any]:
        """Find pupils whose name or form contains a text.

        Args:
            text (str): What to look for; case and accents do not matter.

        Returns:
            dict: {"success": True, "pupils": [{"pupil_id", "name", "form", "year"}]}
        """
        problem = self._misfit({"text": text})
        if problem:
            return self._refuse(problem)
        wanted = self._plain(text)
        found = [
            {"pupil_id": key, **{name: pupil[name] for name in ("name", "form", "year")}}
            for key, pupil in self.pupils.items()
            if wanted in self._plain(pupil["name"]) or wanted in self._plain(pupil["form"])
        ]
        return {"success": True, "pupils": found}

    def get_pupil(self, pupil_id: str) -> Dict[str, Any]:
        """Show a pupil with courses, the week's lessons in order and the exams ahead.

        Args:
            pupil_id (str): The pupil's number, such as "P-07".
        """
        problem = self._misfit({"pupil_id": pupil_id}) or self._unknown(pupil_id=pupil_id)
        if problem:
            return self._refuse(problem)
        courses = [
            {"course_id": key, "title": self.courses[key]["title"]}
            for key, enrolled in self.enrolments.items()
            if pupil_id in enrolled
        ]
        week = [
            self._lesson_row(key)
            for key, lesson in self.lessons.items()
            if pupil_id in self.enrolments.get(lesson["course_id"], [])
        ]
        ahead = [
            {"exam_id": key, **copy.deepcopy(exam)}
            for key, exam in self._planned().items()
            if exam["date"] >= self.today and pupil_id in self.enrolments.get(exam["course_id"], [])
        ]
        return {
            "success": True,
            "pupil": copy.deepcopy(self.pupils[pupil_id]),
            "courses": courses,
            "week": self._in_order(week),
            "exams": sorted(ahead, key=lambda exam: (exam["date"], exam["period"])),
        }

    def list_teachers(self, text: str = "", subject: Optional[str] = None) -> Dict[str, Any]:
        """List teachers with their subjects and working days.

        Args:
            text (str, optional): Only those whose name contains this.
            subject (str, optional): Only those who teach this, such as "history".
        """
        problem = self._misfit({"text": text}, {"subject": subject})
        if problem:
            return self._refuse(problem)
        listed = [
            {"teacher_id": key, **copy.deepcopy(teacher)}
            for key, teacher in self.teachers.items()
            if self._plain(text) in self._plain(teacher["name"])
            and (subject is None or self._plain(subject) in teacher["subjects"])
        ]
        return {"success": True, "teachers": listed}

    def list_courses(self, year: Optional[int] = None, subject: Optional[str] = None) -> Dict[str, Any]:
        """List courses with their teacher, free places and weekly lessons.

        Args:
            year (int, optional): Only courses of this year, such as 9.
            subject (str, optional): Only courses of this subject, such as "chemistry".
        """
        problem = self._misfit({}, {"year": year, "subject": subject})
        if problem:
            return self._refuse(problem)
        listed = []
        for key, course in self.courses.items():
            if year not in (None, course["year"]) or (subject and self._plain(subject) != course["subject"]):
                continue
            enrolled = len(self.enrolments.get(key, []))
            lessons = self._in_order(
                [self._lesson_row(lesson_id) for lesson_id, row in self.lessons.items() if row["course_id"] == key]
            )
            times = [
                {name: row[name] for name in ("lesson_id", "day", "period", "start", "end", "room")} for row in lessons
            ]
            listed.append(
                {
                    "course_id": key,
                    **course,
                    "teacher": self.teachers[course["teacher_id"]]["name"],
                    "enrolled": enrolled,
                    "free_places": course["places"] - enrolled,
                    "lessons": times,
                }
            )
        return {"success": True, "courses": listed}

    def list_lessons(
        self,
        day: Optional[Literal["mon", "tue", "wed", "thu", "fri"]] = None,
        room_id: Optional[str] = None,
        teacher_id: Optional[str] = None,
    ) -> Dict[str, Any]:
        """List weekly lessons in their order, narrowed by any of the arguments.

        Args:
            day (str, optional): "mon", "tue", "wed", "thu" or "fri".
            room_id (str, optional): Only lessons in this room.
            teacher_id (str, optional): Only this teacher's lessons.
        """
        problem = self._misfit({}, {"day": day, "room_id": room_id, "teacher_id": teacher_id})
        if problem:
            return self._refuse(problem)
        wanted = {"day": day, "room_id": room_id, "teacher_id": teacher_id}
        rows = [self._lesson_row(key) for key in self.lessons]
        kept = [row for row in rows if all(value is None or row[name] == value for name, value in wanted.items())]
        return {"success": True, "lessons": self._in_order(kept)}

    def list_rooms(
        self,
        kind: Optional[Literal["classroom", "lab", "computer", "studio", "hall"]] = None,
        date: Optional[str] = None,
        period: Optional[int] = None,
    ) -> Dict[str, Any]:
        """List rooms; with a date and a period, only those in which there is neither a lesson nor an exam then.

        Args:
            kind (str, optional): "classroom", "lab", "computer", "studio" or "hall".
            date (str, optional): A day as YYYY-MM-DD, together with a period.
            period (int, optional): A period from 1 to 6, together with a date.
        """
        problem = self._misfit({}, {"kind": kind, "date": date, "period": period})
        if problem:
            return self._refuse(problem)
        if (date is None) != (period is None):
            return self._refuse("A date and a period are given together or not at all")
        taken = set()
        if date is not None and period is not None:
            time = (self._weekday(date), period)
            taken = {row["room_id"] for row in self.lessons.values() if (row["day"], row["period"]) == time}
            taken |= {e["room_id"] for e in self._planned().values() if (e["date"], e["period"]) == (date, period)}
        listed = [
            {"room_id": key, **room}
            for key, room in self.rooms.items()
            if key not in taken and kind in (None, room["kind"])
        ]
        return {"success": True, "rooms": listed}

    def find_slots(self, lesson_id: str, day: Literal["mon", "tue", "wed", "thu", "fri"]) -> Dict[str, Any]:
        """Find when and where on a weekday a lesson could take place: its teacher, its pupils and the room are free.

        Args:
            lesson_id (str): The lesson's number, such as "L-12".
            day (str): "mon", "tue", "wed", "thu" or "fri".
        """
        problem = self._misfit({"lesson_id": lesson_id, "day": day}) or self._unknown(lesson_id=lesson_id)
        if problem:
            return self._refuse(problem)
        slots = []
        for number, times in self.periods.items():
            free = [key for key in self.rooms if not self._slot_obstacle(lesson_id, day, int(number), key)]
            if free:
                slots.append({"period": int(number), "start": times["start"], "end": times["end"], "room_ids": free})
        return {"success": True, "slots": slots}

    def list_exams(
        self, course_id: Optional[str] = None, year: Optional[int] = None, date: Optional[str] = None
    ) -> Dict[str, Any]:
        """List planned exams from today on, by date.

        Args:
            course_id (str, optional): Only this course's.
            year (int, optional): Only exams of courses of this year.
            date (str, optional): Only on this day, as YYYY-MM-DD.
        """
        problem = self._misfit({}, {"course_id": course_id, "year": year, "date": date})
        if problem:
            return self._refuse(problem)
        listed = [
            {"exam_id": key, **copy.deepcopy(exam), "room": self.rooms[exam["room_id"]]["name"]}
            for key, exam in self._planned().items()
            if exam["date"] >= self.today
            and course_id in (None, exam["course_id"])
            and year in (None, self.courses[exam["course_id"]]["year"])
            and date in (None, exam["date"])
        ]
        return {"success": True, "exams": sorted(listed, key=lambda exam: (exam["date"], exam["period"]))}

    def list_cover(self, date: str) -> Dict[str, Any]:
        """List what absences of a day leave open: lessons with who covers them, and exams without their invigilator.

        Args:
            date (str): The day as YYYY-MM-DD.
        """
        problem = self._misfit({"date": date})
        if problem:
            return self._refuse(problem)
        lessons = []
        for key, lesson in self.lessons.items():
            if lesson["day"] == self._weekday(date) and self._absent(self._lesson_teacher(lesson), date):
                cover = self._cover_of(key, date)
                by = self.covers[cover]["teacher_id"] if cover else None
                lessons.append({**self._lesson_row(key), "covered_by": by})
        exams = [
            {"exam_id": key, **copy.deepcopy(exam)}
            for key, exam in self._planned().items()
            if exam["date"] == date and self._absent(exam["invigilator_id"], date)
        ]
        return {"success": True, "lessons": self._in_order(lessons), "exams": exams}

    def find_cover(self, lesson_id: str, date: str) -> Dict[str, Any]:
        """Find the teachers who could cover a lesson on a date, with how many lessons they cover that week.

        Args:
            lesson_id (str): The lesson's number.
            date (str): The day as YYYY-MM-DD.
        """
        problem = self._misfit({"lesson_id": lesson_id, "date": date}) or self._unknown(lesson_id=lesson_id)
        if problem:
            return self._refuse(problem)
        lesson = self.lessons[lesson_id]
        if lesson["day"] != self._weekday(date):
            return self._refuse(f"{lesson_id} does not take place on {date}")
        subject = self.courses[lesson["course_id"]]["subject"]
        found = [
            {
                "teacher_id": key,
                "name": teacher["name"],
                "teaches_subject": subject in teacher["subjects"],
                "covers_that_week": self._covers_in_week(key, date),
            }
            for key, teacher in self.teachers.items()
            if not self._cover_obstacle(key, lesson_id, date)
        ]
        return {"success": True, "subject": subject, "teachers": found}

    # Tools that change.

    def enrol_pupil(self, pupil_id: str, course_id: str) -> Dict[str, Any]:
        """Put a pupil into a course of their year that has a place and fits their week.

        Args:
            pupil_id (str): Who.
            course_id (str): Into which course, such as "ENG8".
        """
        problem = self._misfit({"pupil_id": pupil_id, "course_id": course_id})
        problem = problem or self._unknown(pupil_id=pupil_id, course_id=course_id)
        if problem:
            return self._refuse(problem)
        if self.today > self.changes_until:
            return self._refuse(f"Courses could be changed until {self.changes_until}")
        pupil, course = self.pupils[pupil_id], self.courses[course_id]
        enrolled = self.enrolments.get(course_id, [])
        if pupil_id in enrolled:
            return self._refuse(f"{pupil['name']} already takes {course_id}")
        if pupil["year"] != course["year"]:
            return self._refuse(f"{course_id} is for year {course['year']}, {pupil['name']} is in year {pupil['year']}")
        for key, others in self.enrolments.items():
            if pupil_id in others and self.courses[key]["subject"] == course["subject"]:
                return self._refuse(f"{pupil['name']} already takes {course['subject']} in {key}")
        if len(enrolled) >= course["places"]:
            return self._refuse(f"All {course['places']} places of {course_id} are taken")
        taken = {(row["day"], row["period"]): row["course_id"] for row in self._lessons_of(pupil_id)}
        for lesson in self.lessons.values():
            if lesson["course_id"] != course_id:
                continue
            time, room = (lesson["day"], lesson["period"]), self.rooms[lesson["room_id"]]
            if time in taken:
                return self._refuse(f"{pupil['name']} has {taken[time]} on {time[0]} in period {time[1]}")
            if pupil["step_free"] and not room["step_free"]:
                return self._refuse(f"{pupil['name']} needs a step-free room, {room['name']} is not")
            if len(enrolled) >= room["seats"]:
                return self._refuse(f"{room['name']} has {room['seats']} seats")
        for exam in self._planned().values():
            if exam["course_id"] == course_id and exam["date"] >= self.today:
                burden = self._too_many_exams(pupil_id, exam["date"])
                if burden:
                    return self._refuse(burden)
                if pupil["step_free"] and not self.rooms[exam["room_id"]]["step_free"]:
                    return self._refuse(f"The exam of {course_id} is in a room that is not step-free")
                if len(enrolled) >= self.rooms[exam["room_id"]]["seats"]:
                    return self._refuse(f"The exam of {course_id} is in a room without another seat")
        self.enrolments[course_id] = sorted([*enrolled, pupil_id])
        free = course["places"] - len(self.enrolments[course_id])
        return {"success": True, "course_id": course_id, "free_places": free}

    def withdraw_pupil(self, pupil_id: str, course_id: str) -> Dict[str, Any]:
        """Take a pupil out of a course.

        Args:
            pupil_id (str): Who.
            course_id (str): Out of which course.
        """
        problem = self._misfit({"pupil_id": pupil_id, "course_id": course_id})
        problem = problem or self._unknown(pupil_id=pupil_id, course_id=course_id)
        if problem:
            return self._refuse(problem)
        if self.today > self.changes_until:
            return self._refuse(f"Courses could be changed until {self.changes_until}")
        if pupil_id not in self.enrolments.get(course_id, []):
            return self._refuse(f"{self.pupils[pupil_id]['name']} does not take {course_id}")
        self.enrolments[course_id] = [key for key in self.enrolments[course_id] if key != pupil_id]
        free = self.courses[course_id]["places"] - len(self.enrolments[course_id])
        return {"success": True, "course_id": course_id, "free_places": free}

    def move_lesson(
        self, lesson_id: str, day: Literal["mon", "tue", "wed", "thu", "fri"], period: int, room_id: str
    ) -> Dict[str, Any]:
        """Move a weekly lesson to another time or room; teacher, pupils and room have to be free there.

        Args:
            lesson_id (str): The lesson's number.
            day (str): "mon", "tue", "wed", "thu" or "fri".
            period (int): The period, from 1 to 6.
            room_id (str): The room's number, such as "R-05".
        """
        problem = self._misfit({"lesson_id": lesson_id, "day": day, "period": period, "room_id": room_id})
        problem = problem or self._unknown(lesson_id=lesson_id, room_id=room_id)
        if problem:
            return self._refuse(problem)
        lesson = self.lessons[lesson_id]
        if (lesson["day"], lesson["period"], lesson["room_id"]) == (day, period, room_id):
            return self._refuse(f"{lesson_id} is there already")
        covered = [e["date"] for e in self.covers.values() if e["lesson_id"] == lesson_id and e["date"] >= self.today]
        if covered:
            return self._refuse(f"{lesson_id} is covered on {covered[0]}; a lesson with cover ahead is not moved")
        obstacle = self._slot_obstacle(lesson_id, day, period, room_id)
        if obstacle:
            return self._refuse(obstacle)
        lesson.update({"day": day, "period": period, "room_id": room_id})
        return {"success": True, "lesson_id": lesson_id, "start": self.periods[str(period)]["start"]}

    def report_absence(
        self, teacher_id: str, date: str, reason: Literal["illness", "training", "trip"]
    ) -> Dict[str, Any]:
        """Note that a teacher is away for a day; lessons that they were to cover then are open again.

        Args:
            teacher_id (str): Who is away.
            date (str): The day as YYYY-MM-DD.
            reason (str): "illness", "training" or "trip".
        """
        problem = self._misfit({"teacher_id": teacher_id, "date": date, "reason": reason})
        problem = problem or self._unknown(teacher_id=teacher_id) or self._no_school(date)
        if problem:
            return self._refuse(problem)
        teacher = self.teachers[teacher_id]
        if self._weekday(date) not in teacher["days"]:
            return self._refuse(f"{teacher['name']} does not work on {date} anyway")
        if self._absent(teacher_id, date):
            return self._refuse(f"{teacher['name']} is already absent on {date}")
        dropped = [
            key for key, e in self.covers.items() if (e["teacher_id"], e["date"]) == (teacher_id, date)
        ]
        reopened = [self.covers.pop(key)["lesson_id"] for key in dropped]
        key = f"X-{self.next_absence}"
        self.next_absence += 1
        self.absences[key] = {"teacher_id": teacher_id, "date": date, "reason": reason}
        return {"success": True, "absence_id": key, "reopened_lessons": reopened}

    def assign_cover(self, lesson_id: str, date: str, teacher_id: str) -> Dict[str, Any]:
        """Let a teacher cover a lesson of an absent colleague.

        Args:
            lesson_id (str): Which lesson.
            date (str): The day as YYYY-MM-DD.
            teacher_id (str): Who covers it.
        """
        problem = self._misfit({"lesson_id": lesson_id, "date": date, "teacher_id": teacher_id})
        problem = problem or self._unknown(lesson_id=lesson_id, teacher_id=teacher_id) or self._no_school(date)
        if problem:
            return self._refuse(problem)
        lesson = self.lessons[lesson_id]
        if lesson["day"] != self._weekday(date):
            return self._refuse(f"{lesson_id} does not take place on {date}")
        if not self._absent(self._lesson_teacher(lesson), date):
            return self._refuse(f"{self.teachers[self._lesson_teacher(lesson)]['name']} is not absent on {date}")
        if self._cover_of(lesson_id, date):
            return self._refuse(f"{lesson_id} is already covered on {date}")
        obstacle = self._cover_obstacle(teacher_id, lesson_id, date)
        if obstacle:
            return self._refuse(obstacle)
        key = f"V-{self.next_cover}"
        self.next_cover += 1
        self.covers[key] = {"lesson_id": lesson_id, "date": date, "teacher_id": teacher_id}
        return {"success": True, "cover_id": key, "covers_that_week": self._covers_in_week(teacher_id, date)}

    def set_exam(self, course_id: str, date: str, period: int, room_id: str, invigilator_id: str) -> Dict[str, Any]:
        """Plan a course's exam, at least a week ahead; a course has at most one exam ahead.

        Args:
            course_id (str): Which course writes.
            date (str): The day as YYYY-MM-DD.
            period (int): The period, from 1 to 6.
            room_id (str): Where.
            invigilator_id (str): The teacher who sits in.
        """
        problem = self._misfit(
            {
                "course_id": course_id,
                "date": date,
                "period": period,
                "room_id": room_id,
                "invigilator_id": invigilator_id,
            }
        )
        problem = problem or self._unknown(course_id=course_id, room_id=room_id, invigilator_id=invigilator_id)
        if problem:
            return self._refuse(problem)
        for key, exam in self._planned().items():
            if exam["course_id"] == course_id and exam["date"] >= self.today:
                return self._refuse(f"{course_id} already has exam {key} on {exam['date']}")
        obstacle = self._exam_obstacle(course_id, date, period, room_id, invigilator_id) or self._short_notice(date)
        if obstacle:
            return self._refuse(obstacle)
        key = f"E-{self.next_exam}"
        self.next_exam += 1
        self.exams[key] = {
            "course_id": course_id,
            "date": date,
            "period": period,
            "room_id": room_id,
            "invigilator_id": invigilator_id,
            "status": "planned",
        }
        return {"success": True, "exam_id": key}

    def move_exam(
        self,
        exam_id: str,
        date: Optional[str] = None,
        period: Optional[int] = None,
        room_id: Optional[str] = None,
        invigilator_id: Optional[str] = None,
    ) -> Dict[str, Any]:
        """Change the day, the period, the room or the invigilator of a planned exam; what is left out stays.

        Args:
            exam_id (str): The exam's number, such as "E-12".
            date (str, optional): The new day as YYYY-MM-DD.
            period (int, optional): The new period, from 1 to 6.
            room_id (str, optional): The new room.
            invigilator_id (str, optional): The teacher who sits in instead.
        """
        given = {"date": date, "period": period, "room_id": room_id, "invigilator_id": invigilator_id}
        problem = self._misfit({"exam_id": exam_id}, given)
        problem = problem or self._unknown(exam_id=exam_id, room_id=room_id, invigilator_id=invigilator_id)
        if problem:
            return self._refuse(problem)
        exam = self.exams[exam_id]
        if exam["status"] != "planned" or exam["date"] < self.today:
            return self._refuse(f"{exam_id} is not ahead")
        changes = {name: value for name, value in given.items() if value is not None and value != exam[name]}
        if not changes:
            return self._refuse("Nothing to change")
        after = {**exam, **changes}
        obstacle = self._exam_obstacle(
            after["course_id"], after["date"], after["period"], after["room_id"], after["invigilator_id"], exam_id
        )
        if not obstacle and ("date" in changes or "period" in changes):
            obstacle = self._short_notice(after["date"])
        if obstacle:
            return self._refuse(obstacle)
        exam.update(changes)
        return {"success": True, "exam_id": exam_id, **changes}

    def cancel_exam(self, exam_id: str) -> Dict[str, Any]:
        """Cancel a planned exam.

        Args:
            exam_id (str): The exam's number.
        """
        problem = self._misfit({"exam_id": exam_id}) or self._unknown(exam_id=exam_id)
        if problem:
            return self._refuse(problem)
        exam = self.exams[exam_id]
        if exam["status"] != "planned" or exam["date"] < self.today:
            return self._refuse(f"{exam_id} is not ahead")
        exam["status"] = "cancelled"
        return {"success": True, "exam_id": exam_id}
