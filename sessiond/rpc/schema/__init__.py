"""The types of the wire, version 1: what each method takes and gives. The protocol reference is generated from here.

Names are camelCase on the wire. Params are decoded into these types, so a wrong one is refused with its field's name;
keys that are not named are ignored. Results are built by the service as plain objects; their types here are what the
reference shows and the tests check.
"""

PROTOCOL_VERSION = 1
