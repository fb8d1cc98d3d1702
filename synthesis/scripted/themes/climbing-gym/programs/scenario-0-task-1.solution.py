def solve(call):
    courses = call("list_courses", needs="lead")["courses"]
    people = sorted({member for course in courses for member in course["enrolled"]})
    members = [call("get_member", member_id=one)["member"] for one in people]
    fewest = min(members, key=lambda member: member["visits_left"])
    seats = sum(course["free_seats"] for course in courses)
    return {"seats": seats, "person": fewest["name"], "visits": fewest["visits_left"]}
