"""Webhooks: events are posted to addresses that an administrator names, signed.

The form is Standard Webhooks (https://www.standardwebhooks.com): `signature.py`. A delivery is a row before it is a
request (`services.py`), so that none is lost and each try is seen; `delivery.py` sends to all addresses at the same
time, under the rules for outgoing addresses that endpoints have; the scheduler wakes due deliveries, with longer rests
from try to try.
"""
