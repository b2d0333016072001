"""What pyproject.toml cannot say: the one part in C, without which the package is as whole, and slower with several threads."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "interlock._links._exchange",
            ["src/interlock/_links/_exchange.c"],
            extra_compile_args=["-Wall", "-Wextra"],
            optional=True,
        )
    ]
)
