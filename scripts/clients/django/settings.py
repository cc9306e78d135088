"""settings.py - a project on a sharded database, or, with SHARDED=no, on a plain one"""

import os

SHARDED = os.environ.get("SHARDED") != "no"
SECRET_KEY = "no secret"
INSTALLED_APPS = ["shop"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "sharded" if SHARDED else "django.db.backends.postgresql",
        "NAME": "shop" if SHARDED else "shop_plain",
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        "USER": os.environ["PGUSER"],
    }
}
