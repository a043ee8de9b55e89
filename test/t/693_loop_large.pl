# D2, O6: many large readings, answered at once or waiting behind one of them, are decided in turns that each take a few megabytes
# of memory, in the order of each device, once; copies that would be too large for a record are kept as positions.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my ($devices, $waiting, $kb) = (60, 60, 900);
my $most_kb = 60 * 1024;
my $s = FleetlogTest->new('large', conf => "fleetlog.mqtt_listen = ''\nfsync = off\n", no_wait => 1);
$s->sql(<<"SQL");
SELECT fleetlog.create_stream('telemetry', compression => 'none');
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS \$\$
BEGIN
	IF response IS NULL AND state IS NULL THEN
		RETURN '{"ask": {}, "state": 0}';
	END IF;
	RETURN jsonb_build_object('decisions', jsonb_build_array(reading.log_offset, response), 'state', state::int + 1);
END \$\$;
SELECT fleetlog.create_loop('l', 'telemetry', 'p'::regproc, 'm', '1');
CREATE FUNCTION noise(kb int) RETURNS bytea LANGUAGE sql AS \$\$ SELECT string_agg(sha512(n::text::bytea || random()::text::bytea), '') FROM generate_series(1, kb * 16) n \$\$;
SELECT count(fleetlog.append('telemetry', 'd' || n, noise($kb))) FROM generate_series(1, $devices) n;
SELECT count(fleetlog.append('telemetry', 'd1', noise($kb))) FROM generate_series(1, $waiting) n;
SQL
$s->wait_for("SELECT pending || ' ' || waiting FROM fleetlog.stat_loop", "$devices $waiting", 'all to be asked, or to wait');
$s->sql('SELECT fleetlog.pause_loop(\'l\')');
is($s->sql("SELECT count(fleetlog.answer(request, lease, '1')) FROM fleetlog.next_request('l', 1000)"), $devices, 'all are answered at once');
$s->wait_for('SELECT count(*) FROM fleetlog.loop_request WHERE responded_at IS NOT NULL', $devices, 'the answers to be taken');

my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'runner'");
sub memory { open my $f, '<', "/proc/$pid/status" or return 0; my ($kb) = join('', <$f>) =~ /^RssAnon:\s+(\d+) kB/m; return $kb // 0; }
my $before = memory();
my $most = 0;
$s->sql('SELECT fleetlog.resume_loop(\'l\')');
my $look = $s->session;
FleetlogTest::wait_until(sub { my $now = memory(); $most = $now if $now > $most; return $look->query('SELECT count(*) FROM l_decision') == $devices + $waiting; }, 'all to be decided', 100);
$look->quit;
note("the runner took $before kB before and $most kB at most");
cmp_ok($most - $before, '<', $most_kb, 'memory of a turn is bounded');
is($s->sql("SELECT count(*) || ' ' || count(DISTINCT fleetlog.json(payload) -> 'reading' -> 'offset') FROM l_decision"), ($devices + $waiting) . ' ' . ($devices + $waiting), 'each reading is decided once');
is($s->sql("SELECT bool_and(o > before) FROM (SELECT o, lag(o) OVER (ORDER BY log_offset) AS before FROM (SELECT log_offset, (fleetlog.json(payload) -> 'reading' ->> 'offset')::bigint AS o FROM l_decision WHERE key = 'd1') x) y WHERE before IS NOT NULL"), 't', 'those of a device in their order');
is($s->sql("SELECT max((state)::int) FROM fleetlog.loop_state"), $waiting + 1, 'and its state has seen them all');
is($s->sql("SELECT count(*) FROM l_request WHERE fleetlog.json(payload) -> 'reading' ? 'payload_base64'"), 0, 'no request has a copy that it has no room for');
is($s->sql("SELECT string_agg(DISTINCT verdict, ', ') FROM fleetlog.replay('l')"), 'same', 'all is replayed equal');
is($s->sql("SELECT sum(waiting + pending + lag) FROM fleetlog.stat_loop"), 0, 'nothing is left');
is($s->crashes, '', 'no process crashed');
done_testing();
