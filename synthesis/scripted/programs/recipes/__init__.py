"""Recipes of the teacher, a module per theme: each reads a request and proceeds by the results of the tools."""

from synthesis.scripted.programs.recipes import (
    archive_boxes,
    badge_desk,
    bike_share,
    climbing_gym,
    plant_nursery,
    radio_rundown,
)
from synthesis.scripted.programs.solver import Recipe

RECIPES: dict[str, tuple[Recipe, ...]] = {
    "archive-boxes": archive_boxes.RECIPES,
    "badge-desk": badge_desk.RECIPES,
    "bike-share": bike_share.RECIPES,
    "climbing-gym": climbing_gym.RECIPES,
    "plant-nursery": plant_nursery.RECIPES,
    "radio-rundown": radio_rundown.RECIPES,
}
