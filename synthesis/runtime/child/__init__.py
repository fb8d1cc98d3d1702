"""Code that runs inside the sandbox. Standard library only: no module here may import the host's modules.

The zygote loads these modules by path under the package name `envbox`; the host imports the pure ones (`codec`,
`patches`, `schema`, `answer_values`) under their full name, so both sides share one encoding.
"""
