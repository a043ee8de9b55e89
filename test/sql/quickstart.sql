-- One call makes one of each and says what to type; a second one makes nothing twice.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
SELECT regexp_replace(regexp_replace(regexp_replace(regexp_replace(line, 'password [A-Za-z0-9_-]{24}', 'password <24>'), '-P [A-Za-z0-9_-]{24}', '-P <24>'), '-h [^ ]+ -p [0-9]+', '-h <host> -p <port>'), 'psql -d [^ ]+', 'psql -d <db>') AS line
FROM fleetlog.quickstart('fl-quick/') WITH ORDINALITY q(line, n) WHERE line NOT LIKE '%No MQTT listener%' ORDER BY n;
SELECT prefix, stream, state, keep FROM fleetlog.mount;
SELECT name, prefix FROM fleetlog.tenant;
SELECT tenant, id FROM fleetlog.device;
SELECT line FROM fleetlog.quickstart('fl-quick/') WITH ORDINALITY q(line, n) WHERE line LIKE '-- Device%';
SELECT (SELECT count(*) FROM fleetlog.mount), (SELECT count(*) FROM fleetlog.tenant), (SELECT count(*) FROM fleetlog.device), (SELECT count(*) FROM fleetlog.credential);
SELECT * FROM fleetlog.can('fl_quick/device-1', 'publish', 'fl-quick/device-1/temperature');
SELECT fleetlog.quickstart('no-slash');
SELECT fleetlog.quickstart('');
SELECT fleetlog.unmount('fl-quick/');
SELECT fleetlog.drop_device('device-1');
SELECT fleetlog.drop_tenant('fl_quick');
SELECT fleetlog.drop_stream('public.fl_quick');
DROP TABLE public.fl_quick_now;
DELETE FROM fleetlog.audit;
