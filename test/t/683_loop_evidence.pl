# D6, L7, L8: what becomes of evidence when the keeper's retention removes readings, by itself, under running loops: copies are
# replayed and explained as before, references are gone and never missing, what is pinned or in a data set stays, and who would
# trim it, by SQL or over Kafka, is refused and told whose it is.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::KafkaFetch;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('evidence', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.retention_grace = '0'
fleetlog.max_xids_per_second = 0
fleetlog.loop_max_waiting = 100000
CONF
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('telemetry', segment_bytes => 65536);
SELECT fleetlog.create_stream('control', segment_bytes => 65536, retention_bytes => 100000);
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.create_device('d1', 'acme', password => 'x');
CREATE ROLE boss LOGIN PASSWORD 'pw-boss' IN ROLE fleetlog_admin;
ALTER TABLE telemetry OWNER TO boss;
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	n int := (fleetlog.json(reading.payload) ->> 'n')::int;
BEGIN
	IF response IS NOT NULL THEN
		RETURN jsonb_build_object('decisions', jsonb_build_array(response), 'state', to_jsonb(n));
	ELSIF n % 100 = 0 THEN
		RETURN jsonb_build_object('ask', jsonb_build_object('n', n));
	ELSIF n % 25 = 0 THEN
		RETURN jsonb_build_object('decisions', jsonb_build_array(n), 'state', to_jsonb(n));
	END IF;
	RETURN NULL;
END $$;
SELECT fleetlog.create_loop(l, 'telemetry', 'p'::regproc, 'm', '1', evidence => l) FROM unnest(ARRAY['copy', 'reference']) l;
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", '1', 'the Kafka door');

# `more` readings of noise, so that they take room; all decided.
my $written = 0;
sub readings
{
    my ($more, @loops) = @_;
    $s->sql("SELECT count(fleetlog.append(t, 'acme/d1', convert_to(format('{\"n\": %s, \"noise\": \"%s\"}', n, md5(n::text) || md5(random()::text)), 'UTF8'), device => 'd1', tenant => 'acme'))
        FROM generate_series($written + 1, $written + $more) n, unnest(ARRAY['telemetry', 'control']::regclass[]) t");
    $written += $more;
    for my $loop (@loops)
    {
        $s->wait_for(<<SQL, 't', "$loop to have decided");
WITH a AS (SELECT count(fleetlog.answer(request, lease, jsonb_build_object('said', random()))) AS n FROM fleetlog.next_request('$loop', 100))
SELECT n = 0 AND (SELECT sum(pending + waiting + lag) = 0 FROM fleetlog.stat_loop WHERE loop = '$loop') FROM a
SQL
    }
    return;
}
sub verdicts { my ($loop, $more) = @_; return $s->sql("SELECT string_agg(verdict || ' ' || n, ', ' ORDER BY verdict) FROM (SELECT verdict, count(*) AS n FROM fleetlog.replay('$loop'" . ($more // '') . ') GROUP BY 1) x'); }
sub head { return $s->sql("SELECT fleetlog.head('telemetry', 0)"); }

# ---- the keeper removes what nobody pins ----

readings(2500, 'copy', 'reference');
is(verdicts($_), 'same 100', "$_: every decision comes out again") for 'copy', 'reference';
$s->sql("SELECT fleetlog.alter_stream('telemetry', retention_bytes => 100000)");
$s->wait_for("SELECT fleetlog.head('telemetry', 0) > 1000", 't', 'the keeper to remove readings');
my $gone = head();
my $of_gone = $s->sql("SELECT count(*) FROM reference_decision WHERE (fleetlog.json(payload) -> 'reading' ->> 'offset')::bigint < $gone");
is(verdicts('copy'), 'same 100', 'copies come out as before');
is(verdicts('reference'), "reading gone $of_gone, same " . (100 - $of_gone), 'references are gone, none is missing');
is($s->sql("SELECT count(*) FROM fleetlog.replay('reference') WHERE verdict = 'reading gone' AND reason IS NULL"), 0, '... and each says so');
my $first = sub { my ($loop) = @_; return $s->sql("SELECT what FROM fleetlog.explain_decision(ROW('${loop}_decision', 0, 0)::fleetlog.log_position) WHERE step = 'reading'") };
is($first->('copy'), 'acme/d1 acme/d1 (from the copy)', 'the first decision is explained from its copy');
is($first->('reference'), 'reading gone', 'of a reference that is told');
is($s->sql("SELECT DISTINCT tenant || '/' || device FROM reference_decision"), 'acme/d1', '... and whose it was');
is($s->sql("SELECT string_agg(DISTINCT verdict, ', ') FROM fleetlog.replay('copy', policy => 'p'::regproc)"), 'same', 'another policy is given the copies, too');

# ---- and nothing that is pinned, or in a data set ----

$s->sql("SELECT fleetlog.alter_stream('telemetry', retention_bytes => 0)");
my $set_from = $s->sql("SELECT fleetlog.tail('telemetry', 0)");
readings(300, 'copy', 'reference');
$s->sql("SELECT fleetlog.create_dataset('march', 'telemetry', '{\"0\": [[$set_from, " . ($set_from + 200) . "]]}')");
my $pinned_from = $s->sql("SELECT fleetlog.tail('telemetry', 0)");
$s->sql("SELECT fleetlog.create_loop('pin', 'telemetry', 'p'::regproc, 'm', '1', evidence => 'pin')");
readings(2500, 'copy', 'reference', 'pin');
my $control = $s->sql("SELECT fleetlog.head('control', 0)");
$s->sql("SELECT fleetlog.alter_stream('telemetry', retention_bytes => 100000)");
$s->wait_for('SELECT fleetlog.head(\'telemetry\', 0)', $set_from, 'the keeper to come to what is held');
readings(2500, 'copy', 'reference', 'pin');
$s->wait_for("SELECT fleetlog.head('control', 0) > " . ($control + 1000), 't', 'the keeper to have gone round again');
is(head(), $set_from, 'it has removed nothing of the data set');
is($s->sql("SELECT ok FROM fleetlog.verify_dataset('march')"), 't', 'which is what it was');
$s->sql("SELECT fleetlog.drop_dataset('march')");
$s->wait_for("SELECT fleetlog.head('telemetry', 0)", $pinned_from, 'the keeper to come to what is pinned');
readings(1500, 'copy', 'reference', 'pin');
is(verdicts('pin'), 'same ' . $s->sql('SELECT count(*) FROM pin_decision'), 'what is pinned comes out again');
is(verdicts('pin', ", policy => 'p'::regproc"), 'same ' . $s->sql('SELECT count(*) FROM pin_decision'), '... with another policy, too');
is(head(), $pinned_from, 'nothing of it has gone');
like($s->sql("SELECT role || ': ' || reason || ' ' || ranges FROM fleetlog.stream_hold"), qr/: evidence of loop "pin" \{"0": \[\[$pinned_from, null\]\]\}/, 'the view names the loop');
like($s->sql_error("SELECT fleetlog.trim_head('telemetry', 0, " . ($pinned_from + 10) . ', NULL)'), qr/LF108.*evidence of loop "pin"/s, 'so does the error of a trim');
like($s->sql_error("SELECT fleetlog.drop_stream('telemetry')"), qr/2BP01.*loop/s, 'the stream cannot be dropped');
like($s->sql_error('SELECT fleetlog.release_hold(hold) FROM fleetlog.loop_pin'), qr/LF108.*loop "pin"/s, 'nor the hold released by itself');

# ---- over Kafka ----

my $kafka = FleetlogTest::KafkaFetch->connect($port);
is(($kafka->log_in('boss', 'pw-boss'))[0], 0, 'the owner of the stream comes by Kafka');
sub delete_records { my ($offset) = @_; $kafka->request(21, 1, pack('N', 1) . pack('n/a*', 'telemetry') . pack('N N q> N', 1, 0, $offset, 10000)); return unpack 'n', substr +($kafka->answer)[1], -2; }
my $since = -s $s->node->logfile;
is(delete_records($pinned_from + 10), 44, 'DeleteRecords of what is pinned: POLICY_VIOLATION');
$s->wait_for_log(qr/DeleteRecords is refused: .*hold \d+/, $since);
is(delete_records(-1), 44, '... of everything');
is(delete_records($pinned_from), 0, '... of what is gone is no error');
$kafka->request(20, 3, pack('N', 1) . pack('n/a*', 'telemetry') . pack('N', 10000));
is(unpack('n', substr +($kafka->answer)[1], -2), 44, 'nor can the topic be deleted');
is(head(), $pinned_from, 'all of it is there');

# ---- pins end ----

$s->sql("SELECT fleetlog.drop_loop('pin')");
is($s->sql('SELECT count(*) FROM fleetlog.stream_hold'), 0, 'pins end with their loop');
$s->wait_for("SELECT fleetlog.head('telemetry', 0) > " . ($pinned_from + 1000), 't', 'the keeper to go on');
is($s->sql("SELECT verdict FROM fleetlog.replay('copy') GROUP BY 1"), 'same', 'copies come out still');
is($s->sql("SELECT count(*) FROM fleetlog.replay('reference') WHERE verdict NOT IN ('same', 'reading gone')"), 0, 'and no reference is missing or different');
is($s->sql('SELECT count(*) FROM fleetlog.stat_loop WHERE gone > 0 OR error IS NOT NULL'), 0, 'no loop has missed a reading');
is($s->crashes, '', 'no process crashed');
done_testing();
