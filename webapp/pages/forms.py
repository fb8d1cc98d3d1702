from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat


class UploadField(forms.FileField):
    """A file within the installation's limit, refused with both sizes when it is larger."""

    widget = forms.FileInput

    def clean(self, data: Any, initial: Any = None) -> Any:
        file = super().clean(data, initial)
        limit = settings.UPLOAD_LIMIT_MIB * 1024 * 1024
        if isinstance(file, UploadedFile) and (file.size or 0) > limit:
            sizes = f"{filesizeformat(file.size or 0)}; this installation takes {filesizeformat(limit)} at most"
            raise forms.ValidationError(f"The file has {sizes} (ENVARIUM_UPLOAD_LIMIT_MIB).")
        return file


class EnvironmentsForm(forms.Form):
    environments = UploadField()
    scenarios = UploadField(required=False)


class TrajectoriesForm(forms.Form):
    trajectories = UploadField()


class ServersForm(forms.Form):
    servers = UploadField()
