"""The types of the wire, version 1: what each method takes and gives. The protocol reference is generated from here.

Names are camelCase on the wire. Params are decoded into these types, so a wrong one is refused with its field's name;
keys that are not named are ignored. Results are values of these types, all but messages and changes, which may have keys of
their users' own and are plain objects; the tests hold both to what is written here.
"""

PROTOCOL_VERSION = 1
