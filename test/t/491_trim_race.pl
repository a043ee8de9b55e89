# L8: a trim on a condition is exact while publishers write and others trim: each trim that was accepted had the tail that
# it named at that very moment, and no record came between the check and the trim.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('trims', conf => "fleetlog.retention_grace = '1s'\nfleetlog.shard_lock_timeout = '60s'\n");
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('telemetry', segment_bytes => 65536);
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.mount('acme/', 'telemetry');
SELECT fleetlog.create_device('d' || n, 'acme', password => 'pw-d' || n) FROM generate_series(1, 2) n;
CREATE TABLE attempt (trimmer int, before bigint, expected bigint, accepted bool, sqlstate text, detail text);
-- Goes on until this trimmer was accepted so often and so many were refused, whoever is served first: a refusal means that
-- another write came in between, publishers end, and all of the trimmers race on until enough were refused.
CREATE PROCEDURE race(me int, wanted int, refusals int) LANGUAGE plpgsql AS $$
DECLARE t bigint; h bigint; b bigint; d text; state text;
BEGIN
	WHILE (SELECT count(*) FROM attempt WHERE trimmer = me AND accepted) < wanted OR (SELECT count(*) FROM attempt WHERE NOT accepted) < refusals LOOP
		t := fleetlog.tail('telemetry', 0);
		h := fleetlog.head('telemetry', 0);
		b := least(t, h + 1 + (random() * 3)::int);
		BEGIN
			-- The record of an accepted trim is written where the trim has decided, so its offset tells the tail then.
			PERFORM fleetlog.trim_head('telemetry', 0, b, t);
			PERFORM fleetlog.append('telemetry', 'trim ' || me, convert_to(t::text, 'UTF8'));
			INSERT INTO attempt VALUES (me, b, t, true, NULL, NULL);
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, d = PG_EXCEPTION_DETAIL;
			INSERT INTO attempt VALUES (me, b, t, false, state, d);
		END;
		COMMIT;
	END LOOP;
END $$;
SQL
my ($trimmers, $wanted, $refusals) = (8, 12, 60);
my @runs = map { $s->start_sql("CALL race($_, $wanted, $refusals)") } 1 .. $trimmers;
push @runs, $s->start_sql("DO \$\$ BEGIN FOR i IN 1 .. 400 LOOP PERFORM fleetlog.append('telemetry', 'sql', 'x'); COMMIT; END LOOP; END \$\$");
my $device = $s->device('d1');
my $published = 0;
for my $n (1 .. 200)
{
    $published++ if $device->publish_acked('acme/d1/t', "n$n") == 0;
}
is($published, 200, 'a device is acknowledged all the time');
for my $run (@runs)
{
    my ($rc, undef, $err) = $s->finish_sql($run);
    is($rc, 0, 'a session ended well') or diag($err);
}
note('accepted and refused: ' . $s->sql('SELECT count(*) FILTER (WHERE accepted), count(*) FILTER (WHERE NOT accepted) FROM attempt'));
is($s->sql("SELECT count(*) FROM (SELECT FROM attempt WHERE accepted GROUP BY trimmer HAVING count(*) >= $wanted) t"), $trimmers, 'every trimmer was accepted in the end');
cmp_ok($s->sql('SELECT count(*) FROM attempt WHERE NOT accepted'), '>=', $refusals, 'and others were refused meanwhile');
is($s->sql("SELECT string_agg(DISTINCT sqlstate, ',') FROM attempt WHERE NOT accepted"), 'LF102', 'all of the refusals are LF102');
is($s->sql(q{SELECT count(*) FROM attempt WHERE NOT accepted AND (detail !~ '^The tail is \d+\.$' OR substring(detail FROM '\d+')::bigint <= expected)}), '0',
    'each names the new tail, which is beyond the one expected');

# Every accepted trim stands in the log at exactly the tail that it had named; those below the head have been removed.
is($s->sql(q{SELECT count(*) FROM telemetry WHERE key LIKE 'trim %' AND fleetlog.text(payload)::bigint <> log_offset}), '0', 'no record came between the check and the trim');
is($s->sql(q{SELECT count(*) FROM attempt a WHERE accepted AND expected >= fleetlog.head('telemetry', 0)
    AND NOT EXISTS (SELECT FROM telemetry t WHERE t.log_offset = a.expected AND t.key = 'trim ' || a.trimmer)}), '0', 'each accepted trim stands where it was decided');
is($s->sql("SELECT fleetlog.head('telemetry', 0) = max(before) FROM attempt WHERE accepted"), 't', 'the head is the greatest that was accepted');
is($s->sql("SELECT count(*) = fleetlog.tail('telemetry', 0) - fleetlog.head('telemetry', 0) AND min(log_offset) = fleetlog.head('telemetry', 0) FROM telemetry"), 't', 'what is left is dense from the head on');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
