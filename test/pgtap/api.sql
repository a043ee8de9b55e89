-- The surface that users type exists as documented, is commented, and is closed by default.
BEGIN;
SELECT plan(13);

SELECT has_schema('fleetlog');
SELECT has_type('fleetlog', 'headers', 'type headers');
SELECT is(missing, '{}'::text[], 'functions of API.md that this version has')
    FROM (SELECT array(SELECT n FROM unnest(ARRAY['create_stream', 'alter_stream', 'drop_stream', 'append', 'publish', 'read', 'head', 'tail', 'offset_for_time',
        'text', 'json', 'cbor', 'topic_matches', 'headers_array', 'headers', 'mount', 'alter_mount', 'unmount', 'create_tenant', 'create_device', 'set_password',
        'set_certificate', 'set_psk', 'revoke_device', 'revoke_credential', 'allow', 'disallow', 'can', 'quickstart', 'send_command', 'cancel_command', 'create_job', 'pause_job', 'resume_job', 'cancel_job', 'pause', 'resume']) n
        WHERE NOT EXISTS (SELECT 1 FROM pg_proc WHERE pronamespace = 'fleetlog'::regnamespace AND proname = n)) AS missing) x;
SELECT is(missing, '{}'::text[], 'views of what exists')
    FROM (SELECT array(SELECT n FROM unnest(ARRAY['stream', 'stream_shard', 'mount', 'tenant', 'device', 'stat_worker', 'stat_listener', 'stat_connection', 'stat_stream', 'stat_mount', 'command', 'command_event', 'job']) n
        WHERE to_regclass('fleetlog.' || n) IS NULL) AS missing) x;
SELECT is(array(SELECT oprname::text FROM pg_operator WHERE oprnamespace = 'fleetlog'::regnamespace AND oprname = '~>'), ARRAY['~>'], 'operator ~>');

-- Everything in the schema that is not internal has a comment.
SELECT is(array(SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE pronamespace = 'fleetlog'::regnamespace AND proname NOT LIKE '\_%' AND obj_description(p.oid, 'pg_proc') IS NULL), '{}'::text[], 'every function has a comment');
SELECT is(array(SELECT c.oid::regclass::text FROM pg_class c
    WHERE relnamespace = 'fleetlog'::regnamespace AND relkind IN ('r', 'v') AND relname NOT LIKE '\_%' AND obj_description(c.oid, 'pg_class') IS NULL), '{}'::text[], 'every relation has a comment');

-- Nothing that changes or shows secrets is open to PUBLIC.
SELECT is(array(SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE pronamespace = 'fleetlog'::regnamespace
      AND proname ~ '^(create|alter|drop|set|revoke|allow|disallow|mount|unmount|pause|resume|quickstart|disconnect)'
      AND has_function_privilege('public', p.oid, 'EXECUTE')), '{}'::text[], 'functions that change the configuration are closed');
SELECT is(array(SELECT c.oid::regclass::text FROM pg_class c
    WHERE relnamespace = 'fleetlog'::regnamespace AND relkind IN ('r', 'S') AND has_table_privilege('public', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')), '{}'::text[],
    'no table is writable for PUBLIC');
SELECT is(has_table_privilege('public', 'fleetlog.credential', 'SELECT'), false, 'credentials are closed');

-- Functions that run with more rights than their caller pin their search_path.  create_loop makes streams where its caller's CREATE TABLE would.
SELECT is(array(SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE pronamespace = 'fleetlog'::regnamespace AND prosecdef AND NOT coalesce(proconfig::text LIKE '%search\_path%', false)), '{}'::text[], 'SECURITY DEFINER pins search_path');
SELECT is(array(SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_language l ON l.oid = prolang
    WHERE pronamespace = 'fleetlog'::regnamespace AND lanname IN ('plpgsql') AND proname <> 'create_loop' AND NOT coalesce(proconfig::text LIKE '%search\_path%', false)), '{}'::text[], 'PL/pgSQL pins search_path');

-- Parallel safety is a decision of each function, and what writes is unsafe.
SELECT is(array(SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE pronamespace = 'fleetlog'::regnamespace AND proname IN ('append', 'publish', 'create_stream', 'mount', 'create_device') AND proparallel <> 'u'), '{}'::text[], 'what writes is parallel unsafe');
SELECT * FROM finish();
ROLLBACK;
