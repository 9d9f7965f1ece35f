"""An Agent Client Protocol recorder: it stands between an editor and an agent, and keeps what they say as a session.

start      puts the parts of a connection together
pump       passes bytes between editor and agent, and writes a copy of each piece into a spool file first
cutter     cuts whole messages out of what passes; no I/O
replaying  what becomes of a message, so that an agent remembers that does not; no I/O
bounds     limits of what passes
sharing    several editors on one agent; no I/O
switch     the two together; no I/O
door       where others join, a Unix socket
joined     the process of an editor that joins
past       what a spool holds of a session, for somebody who joins; no I/O
acts       what it decides, as values
sink       where bytes go, in order
spool      the file of one connection: every piece that passed, in order, with its direction and time
recorder   a process of its own that reads the spool and delivers it
lines      cuts lines out of pieces; no I/O
talk       messages of the protocol -> what is to be done in sessions; no I/O
turn       one session of the agent; no I/O
content    blocks of the protocol -> content of messages; no I/O
naming     the names of recorded sessions
deliver    does what is to be done, over the client
recall     asks the store, by a process of its own
memory     that process
replay     a recorded conversation -> what is repeated of it; no I/O
"""
