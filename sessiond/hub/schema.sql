-- The hub of shared stores: what PostgreSQL keeps, and the functions through which daemons change it.
--
-- A daemon's role may read what row-level security shows it, and call push, give_back and erase. It may change no table. Those functions
-- run as the owner, so each asks first whether the caller (session_user, which the caller cannot choose) is a member of the store.
--
-- The order of a session is made under the lock of its row in `sessions`. `port.py` says what numbers, digests and outcomes mean.
--
-- `sessions.change` is the transaction that changed the session last. A reader keeps the lowest transaction that was still running when
-- it read (`pg_snapshot_xmin`): all below it are visible, so nothing is missed, and no counter makes all pushes wait for each other.

CREATE SCHEMA sessiond;

CREATE TABLE sessiond.version (version int NOT NULL);
INSERT INTO sessiond.version VALUES (1);

CREATE TABLE sessiond.stores (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    -- A name that cannot be guessed: NOTIFY reaches every role that listens to the channel.
    channel text NOT NULL DEFAULT 'sessiond_' || replace(gen_random_uuid()::text, '-', ''),
    sealed boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE sessiond.members (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    store int NOT NULL REFERENCES sessiond.stores,
    role_name name NOT NULL,
    -- Digests hold the name, so it never changes and is never given to somebody else.
    name text NOT NULL,
    may_erase boolean NOT NULL DEFAULT false,
    revoked_at timestamptz,
    UNIQUE (store, role_name),
    UNIQUE (store, name)
);

CREATE TABLE sessiond.replicas (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    store int NOT NULL REFERENCES sessiond.stores,
    replica uuid NOT NULL,
    -- Null: it is known only from operations that another member gave back.
    member int REFERENCES sessiond.members,
    -- Rises each time that the replica asks what became of its operations: a push with a lower one came too late.
    fence int NOT NULL DEFAULT 0,
    UNIQUE (store, replica)
);

CREATE TABLE sessiond.sessions (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    store int NOT NULL REFERENCES sessiond.stores,
    session text COLLATE "C" NOT NULL,
    head bigint NOT NULL DEFAULT -1,
    floor bigint NOT NULL DEFAULT 0,
    digest bytea NOT NULL,
    -- The digest before the operation `floor`.
    before bytea NOT NULL,
    change bigint NOT NULL,
    listing bytea,
    UNIQUE (store, session)
);
CREATE INDEX sessions_by_change ON sessiond.sessions (store, change, session);

-- The columns are in this order so that no row has padding.
CREATE TABLE sessiond.operations (
    number bigint NOT NULL,
    index bigint NOT NULL,
    received timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of `sessions`; the functions see to that. A foreign key would look it up again for each operation.
    session int NOT NULL,
    replica int NOT NULL,
    author int NOT NULL,
    store int NOT NULL,
    voucher int,
    kind smallint NOT NULL,
    id bytea,
    body bytea NOT NULL,
    PRIMARY KEY (session, number),
    UNIQUE (replica, index)
);
CREATE UNIQUE INDEX operations_by_id ON sessiond.operations (session, id) WHERE id IS NOT NULL;
-- Bodies are compressed, or sealed, when they come.
ALTER TABLE sessiond.operations ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE sessiond.sessions ALTER COLUMN listing SET STORAGE EXTERNAL;

CREATE FUNCTION sessiond.my_stores() RETURNS int[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(store), '{}') FROM sessiond.members WHERE role_name = session_user AND revoked_at IS NULL
$$;

ALTER TABLE sessiond.stores ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessiond.members ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessiond.replicas ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessiond.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessiond.operations ENABLE ROW LEVEL SECURITY;
-- The subquery is evaluated once for a statement, not once for a row.
CREATE POLICY mine ON sessiond.stores FOR SELECT USING (id = ANY ((SELECT sessiond.my_stores())::int[]));
CREATE POLICY mine ON sessiond.members FOR SELECT USING (store = ANY ((SELECT sessiond.my_stores())::int[]));
CREATE POLICY mine ON sessiond.replicas FOR SELECT USING (store = ANY ((SELECT sessiond.my_stores())::int[]));
CREATE POLICY mine ON sessiond.sessions FOR SELECT USING (store = ANY ((SELECT sessiond.my_stores())::int[]));
CREATE POLICY mine ON sessiond.operations FOR SELECT USING (store = ANY ((SELECT sessiond.my_stores())::int[]));

-- Who calls, as a member of the store. Everything that writes begins with it.
CREATE FUNCTION sessiond.caller(in_store int) RETURNS sessiond.members
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me sessiond.members;
BEGIN
    SELECT * INTO me FROM sessiond.members WHERE store = in_store AND role_name = session_user AND revoked_at IS NULL;
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s is not a member of this store', session_user);
    END IF;
    -- An answer means that it is on the disk, whatever the default of the role is.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN me;
END
$$;

CREATE FUNCTION sessiond.replica_of(in_store int, in_replica uuid, in_member int) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_id int;
    owner int;
BEGIN
    SELECT id, member INTO found_id, owner FROM sessiond.replicas WHERE store = in_store AND replica = in_replica;
    IF NOT FOUND THEN
        INSERT INTO sessiond.replicas (store, replica, member) VALUES (in_store, in_replica, in_member)
            ON CONFLICT (store, replica) DO NOTHING;
        SELECT id, member INTO found_id, owner FROM sessiond.replicas WHERE store = in_store AND replica = in_replica;
    END IF;
    IF in_member IS NOT NULL AND owner IS NULL THEN
        UPDATE sessiond.replicas SET member = in_member WHERE id = found_id AND member IS NULL;
        SELECT member INTO owner FROM sessiond.replicas WHERE id = found_id;
    END IF;
    IF owner <> in_member THEN
        RAISE insufficient_privilege USING MESSAGE = 'this replica belongs to another member';
    END IF;
    RETURN found_id;
END
$$;

-- Store operations on top of a base, or say why not. Not granted to anybody.
CREATE FUNCTION sessiond.store_operations(
    in_store int, in_session text, base bigint, base_digest bytea, in_listing bytea, kinds smallint[], ids bytea[], indices bigint[],
    bodies bytea[], replica_ids int[], replicas uuid[], author_ids int[], authors text[], in_voucher int,
    OUT outcome text, OUT head bigint, OUT digest bytea, OUT numbers bigint[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    row sessiond.sessions;
    many int := cardinality(indices);
    author bytea;
    message_id bytea;
BEGIN
    SELECT * INTO row FROM sessiond.sessions s WHERE s.store = in_store AND s.session = in_session FOR UPDATE;
    IF NOT FOUND THEN
        digest := sha256(convert_to(in_session, 'UTF8'));
        head := -1;
        IF base <> -1 OR base_digest <> digest THEN
            outcome := CASE WHEN base = -1 THEN 'diverged' ELSE 'ahead' END;
            RETURN;
        END IF;
        INSERT INTO sessiond.sessions (store, session, digest, before, change) VALUES (in_store, in_session, digest, digest, 0)
            ON CONFLICT (store, session) DO NOTHING;
        SELECT * INTO row FROM sessiond.sessions s WHERE s.store = in_store AND s.session = in_session FOR UPDATE;
    END IF;
    head := row.head;
    digest := row.digest;
    IF base <> head OR base_digest <> digest THEN
        SELECT array_agg(o.number ORDER BY u.place) INTO numbers
            FROM unnest(replica_ids, indices) WITH ORDINALITY AS u (replica, index, place)
            JOIN sessiond.operations o ON o.replica = u.replica AND o.index = u.index AND o.session = row.id;
        IF cardinality(numbers) = many THEN
            outcome := 'known';
        ELSE
            numbers := NULL;
            outcome := CASE WHEN base > head THEN 'ahead' WHEN base < head THEN 'behind' ELSE 'diverged' END;
        END IF;
        RETURN;
    END IF;
    FOR i IN 1..many LOOP
        author := convert_to(authors[i], 'UTF8');
        message_id := coalesce(ids[i], ''::bytea);
        digest := sha256(
            digest || int8send(head + i) || int2send(kinds[i]) || int8send(indices[i]) || uuid_send(replicas[i])
            || int4send(length(message_id)) || message_id || int4send(length(author)) || author || bodies[i]);
    END LOOP;
    IF many = 1 THEN  -- the usual case, without sets
        head := head + 1;
        INSERT INTO sessiond.operations (number, index, session, replica, author, store, voucher, kind, id, body)
            VALUES (head, indices[1], row.id, replica_ids[1], author_ids[1], in_store,
                    CASE WHEN in_voucher <> author_ids[1] THEN in_voucher END, kinds[1], ids[1], bodies[1]);
        numbers := ARRAY[head];
    ELSE
        INSERT INTO sessiond.operations (number, index, session, replica, author, store, voucher, kind, id, body)
        SELECT head + u.place, u.index, row.id, u.replica, u.author, in_store,
               CASE WHEN in_voucher <> u.author THEN in_voucher END, u.kind, u.id, u.body
        FROM unnest(indices, replica_ids, author_ids, kinds, ids, bodies) WITH ORDINALITY
            AS u (index, replica, author, kind, id, body, place);
        SELECT array_agg(n) INTO numbers FROM generate_series(head + 1, head + many) n;
        head := head + many;
    END IF;
    UPDATE sessiond.sessions s
        SET head = store_operations.head, digest = store_operations.digest, listing = coalesce(in_listing, s.listing),
            change = pg_current_xact_id()::text::bigint
        WHERE s.id = row.id;
    outcome := 'stored';
END
$$;

CREATE FUNCTION sessiond.tell(in_store int, session text, head bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    -- A payload has less than 8,000 bytes. Without a session it says that something changed.
    SELECT pg_notify(channel, CASE WHEN octet_length(session) < 7000 THEN head || ' ' || session ELSE '' END)
    FROM sessiond.stores WHERE id = in_store
$$;

-- What became of a replica's operations. Waits for its pushes that are under way, and refuses those that arrive later.
CREATE FUNCTION sessiond.settle(
    in_store int, in_replica uuid, known_fence int, indices bigint[],
    OUT fence int, OUT found_indices bigint[], OUT sessions text[], OUT numbers bigint[]
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me sessiond.members := sessiond.caller(in_store);
    replica_id int := sessiond.replica_of(in_store, in_replica, me.id);
BEGIN
    UPDATE sessiond.replicas r SET fence = greatest(r.fence, known_fence) + 1 WHERE r.id = replica_id
        RETURNING r.fence INTO fence;
    SELECT array_agg(o.index), array_agg(s.session), array_agg(o.number) INTO found_indices, sessions, numbers
        FROM sessiond.operations o JOIN sessiond.sessions s ON s.id = o.session
        WHERE o.replica = replica_id AND o.index = ANY (indices);
END
$$;

-- Holds the replica's row until the transaction ends, so that `settle` waits for it.
CREATE FUNCTION sessiond.pass_fence(replica_id int, in_fence int) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM sessiond.replicas r WHERE r.id = replica_id AND r.fence <= in_fence FOR SHARE;
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'this replica was opened again since';
    END IF;
END
$$;

-- Several sessions' operations in one transaction. `counts` says how many of the operations belong to each session.
CREATE FUNCTION sessiond.push(
    in_store int, in_replica uuid, in_fence int, sessions text[], bases bigint[], digests bytea[], listings bytea[], counts int[],
    kinds smallint[], ids bytea[], indices bigint[], bodies bytea[]
) RETURNS TABLE (place int, outcome text, head bigint, digest bytea, numbers bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    my_id int;
    my_name text;
    replica_id int;
    one record;
BEGIN
    -- As `caller`, `replica_of` and `pass_fence`, in one step; if anything is not as usual, they say what.
    SELECT m.id, m.name, r.id INTO my_id, my_name, replica_id
        FROM sessiond.members m JOIN sessiond.replicas r ON r.store = m.store AND r.replica = in_replica AND r.member = m.id
        WHERE m.store = in_store AND m.role_name = session_user AND m.revoked_at IS NULL AND r.fence <= in_fence
        FOR SHARE OF r;
    IF NOT FOUND OR current_setting('synchronous_commit') = 'off' THEN
        SELECT c.id, c.name INTO my_id, my_name FROM sessiond.caller(in_store) c;
        replica_id := sessiond.replica_of(in_store, in_replica, my_id);
        PERFORM sessiond.pass_fence(replica_id, in_fence);
    END IF;
    IF cardinality(sessions) = 1 THEN
        SELECT 1, r.outcome, r.head, r.digest, r.numbers INTO place, outcome, head, digest, numbers
        FROM sessiond.store_operations(
            in_store, sessions[1], bases[1], digests[1], listings[1], kinds, ids, indices, bodies,
            array_fill(replica_id, ARRAY[counts[1]]), array_fill(in_replica, ARRAY[counts[1]]),
            array_fill(my_id, ARRAY[counts[1]]), array_fill(my_name, ARRAY[counts[1]]), my_id) r;
        IF outcome = 'stored' THEN
            PERFORM sessiond.tell(in_store, sessions[1], head);
        END IF;
        RETURN NEXT;
        RETURN;
    END IF;
    -- In the order of their names, so that two transactions never wait for each other.
    FOR one IN
        SELECT u.*, sum(u.many) OVER (ORDER BY u.at) - u.many + 1 AS first
        FROM unnest(sessions, bases, digests, listings, counts) WITH ORDINALITY AS u (session, base, digest, listing, many, at)
        ORDER BY u.session COLLATE "C"
    LOOP
        SELECT r.outcome, r.head, r.digest, r.numbers INTO outcome, head, digest, numbers
        FROM sessiond.store_operations(
            in_store, one.session, one.base, one.digest, one.listing,
            kinds[one.first:one.first + one.many - 1], ids[one.first:one.first + one.many - 1],
            indices[one.first:one.first + one.many - 1], bodies[one.first:one.first + one.many - 1],
            array_fill(replica_id, ARRAY[one.many]), array_fill(in_replica, ARRAY[one.many]),
            array_fill(my_id, ARRAY[one.many]), array_fill(my_name, ARRAY[one.many]), my_id) r;
        IF outcome = 'stored' THEN
            PERFORM sessiond.tell(in_store, one.session, head);
        END IF;
        place := one.at;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Operations that the hub has lost, of any replica and author. The caller vouches for those of others.
CREATE FUNCTION sessiond.give_back(
    in_store int, session text, base bigint, base_digest bytea, listing bytea, kinds smallint[], ids bytea[], indices bigint[],
    bodies bytea[], replicas uuid[], authors text[],
    OUT outcome text, OUT head bigint, OUT digest bytea, OUT numbers bigint[]
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me sessiond.members := sessiond.caller(in_store);
    replica_ids int[];
    author_ids int[];
BEGIN
    -- A member whom the restored hub does not know has no role here.
    INSERT INTO sessiond.members (store, role_name, name, revoked_at)
        SELECT in_store, left('lost:' || a, 63), a, now() FROM (SELECT DISTINCT unnest(authors) AS a) w
        ON CONFLICT DO NOTHING;
    PERFORM sessiond.replica_of(in_store, r, NULL) FROM (SELECT DISTINCT unnest(replicas) AS r) w ORDER BY r;
    SELECT array_agg(x.id ORDER BY u.place) INTO replica_ids FROM unnest(replicas) WITH ORDINALITY AS u (r, place)
        JOIN sessiond.replicas x ON x.store = in_store AND x.replica = u.r;
    SELECT array_agg(x.id ORDER BY u.place) INTO author_ids FROM unnest(authors) WITH ORDINALITY AS u (a, place)
        JOIN sessiond.members x ON x.store = in_store AND x.name = u.a;
    IF cardinality(author_ids) <> cardinality(authors) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'an author cannot be named';
    END IF;
    SELECT r.outcome, r.head, r.digest, r.numbers INTO outcome, head, digest, numbers
    FROM sessiond.store_operations(
        in_store, session, base, base_digest, listing, kinds, ids, indices, bodies, replica_ids, replicas, author_ids, authors, me.id) r;
    IF outcome = 'stored' THEN
        PERFORM sessiond.tell(in_store, session, head);
    END IF;
END
$$;

-- Push one operation of the kind `erased`, and remove all before it.
CREATE FUNCTION sessiond.erase(
    in_store int, in_replica uuid, in_fence int, in_session text, base bigint, base_digest bytea, listing bytea, kind smallint, index bigint, body bytea,
    OUT outcome text, OUT head bigint, OUT digest bytea, OUT numbers bigint[]
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me sessiond.members := sessiond.caller(in_store);
    replica_id int := sessiond.replica_of(in_store, in_replica, me.id);
BEGIN
    PERFORM sessiond.pass_fence(replica_id, in_fence);
    IF NOT me.may_erase THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s may not erase in this store', me.name);
    END IF;
    SELECT r.outcome, r.head, r.digest, r.numbers INTO outcome, head, digest, numbers
    FROM sessiond.store_operations(
        in_store, in_session, base, base_digest, listing, ARRAY[kind], ARRAY[NULL]::bytea[], ARRAY[index], ARRAY[body],
        ARRAY[replica_id], ARRAY[in_replica], ARRAY[me.id], ARRAY[me.name], me.id) r;
    IF outcome = 'stored' THEN
        DELETE FROM sessiond.operations o USING sessiond.sessions s
            WHERE s.store = in_store AND s.session = in_session AND o.session = s.id AND o.number < erase.head;
        UPDATE sessiond.sessions s SET floor = erase.head, before = base_digest, listing = erase.listing
            WHERE s.store = in_store AND s.session = in_session;
        PERFORM sessiond.tell(in_store, in_session, head);
    END IF;
END
$$;

REVOKE ALL ON ALL TABLES IN SCHEMA sessiond FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sessiond FROM PUBLIC;
