# L7, R: retention gives back space within its grace while a stream is written and read: only sessions that hold what was
# removed get an error (LF101 in a scan of ours, 57014 elsewhere, the connection ended when idle in its transaction), and
# neither appenders nor new readers wait for it.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use FleetlogTest;

# The grace is an hour for as long as we look at what it is good for, and then four seconds.
my $s = FleetlogTest->new('retention', conf => <<CONF);
fleetlog.retention_grace = '1h'
log_lock_waits = on
deadlock_timeout = '1s'
fleetlog.max_xids_per_second = 0
CONF
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('telemetry', segment_bytes => 65536);
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.mount('acme/', 'telemetry');
SELECT fleetlog.create_device('d1', 'acme', password => 'pw-d1');
SQL
my $segments = "SELECT count(*) FROM fleetlog._segments('telemetry') WHERE upper <= fleetlog.head('telemetry', 0)";
my $fill = "SELECT count(fleetlog.append('telemetry', 'k' || n, convert_to(repeat(md5(n::text), 4), 'UTF8'))) FROM generate_series(1, 2000) n";
$s->sql($fill) for 1 .. 4;

# Those who hold old rows, each in his own way, and those who do not.
my %holder = map { $_ => $s->session } qw(elsewhere idle savepoint reader others);
my $pid = sub { return $_[0]->query('SELECT pg_backend_pid()') };
my %pid = map { $_ => $pid->($holder{$_}) } keys %holder;
my $lower = $s->sql("SELECT min(segment::text) FROM fleetlog._segments('telemetry') WHERE lower = 0");
$holder{$_}->query('\\set VERBOSITY verbose') for keys %holder;

$holder{idle}->query("BEGIN; SELECT count(*) FROM $lower");
$holder{savepoint}->query("BEGIN; SELECT count(*) FROM $lower; SAVEPOINT a");
my $last = $s->sql("SELECT segment FROM fleetlog._segments('telemetry') WHERE lower <= 7000 AND upper > 7000");
$holder{others}->query("BEGIN; SELECT count(*) FROM $last");
$holder{elsewhere}->send("BEGIN; SELECT count(*) FROM $lower; SELECT pg_sleep(300)", 'end-of-sleep');
$s->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $pid{elsewhere} AND wait_event = 'PgSleep'");

# Load: writers append, new readers read what is new, all the time.
my $load = sub {
    my ($rounds) = @_;
    return $s->start_sql(<<SQL);
DO \$\$ DECLARE h bigint; BEGIN FOR i IN 1 .. $rounds LOOP
	PERFORM count(fleetlog.append('telemetry', 'during', 'x'));
	h := fleetlog.head('telemetry', 0);
	PERFORM count(*) FROM fleetlog.read('telemetry', 0, greatest(h, fleetlog.tail('telemetry', 0) - 50));
	COMMIT;
	PERFORM pg_sleep(0.02);
END LOOP; END \$\$;
SQL
};
my $within = $load->(100);
my $bytes_before = $s->sql("SELECT stored_bytes FROM fleetlog.stat_stream WHERE stream = 'telemetry'::regclass");
is($s->sql("SELECT fleetlog.trim_head('telemetry', 0, 6000, NULL)"), '6000', 'the head is raised while sessions read below it');
# New readers begin at the head at once, although the files are there.
is($s->sql('SELECT min(log_offset) FROM telemetry'), '6000', 'new readers begin at the head');
like($s->sql_error("SELECT * FROM fleetlog.read('telemetry', 0, 5999)"), qr/LF101.*6000/s, 'reading below is too old');
like($s->sql($segments), qr/^[1-9]/, 'segments below the head are still there');
$s->wait_for("SELECT retention_waits_for LIKE 'process%' FROM fleetlog.stat_stream WHERE stream = 'telemetry'::regclass", 't', 'the view to say who is waited for');

# A device is served meanwhile.
my $device = $s->device('d1');
is($device->publish_acked('acme/d1/t', "reading $_"), 0, "a device is acknowledged ($_)") for 1 .. 20;

my ($rc, undef, $err) = $s->finish_sql($within);
is($rc, 0, 'appends and reads came to their end while retention waits') or diag($err);
is($s->sql('SELECT count(*) FROM pg_stat_activity WHERE pid IN (' . join(', ', values %pid) . ')'), '5', 'and within the grace nobody is ended');
is($s->sql("SELECT count(*) FROM fleetlog._segments('telemetry') WHERE segment::text = '$lower'"), '1', 'nor goes what they hold');

my $beyond = $load->(600);
my $begin = time;
$s->set_conf('fleetlog.retention_grace' => '4s');
$s->wait_for($segments, '0', 'all segments below the head to go');
note(sprintf 'the space came back %.1f s after the grace was set to 4 s', time - $begin);
$s->wait_for('SELECT count(*) FROM fleetlog.detached_segment', '0', 'what was detached to be dropped');
cmp_ok($s->sql("SELECT stored_bytes FROM fleetlog.stat_stream WHERE stream = 'telemetry'::regclass"), '<', $bytes_before / 2, 'the files are smaller');

# Who got which error.
$holder{elsewhere}->take('end-of-sleep');
like($holder{elsewhere}->error, qr/57014/, 'a query elsewhere is cancelled with 57014');
for my $name (qw(idle savepoint))
{
    $s->wait_for("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid{$name}", '0', "the session that was idle in its transaction to be gone ($name)");
}
is($holder{others}->query("SELECT count(*) > 0 FROM $last"), 't', 'a transaction that holds a younger segment lives');
is($holder{others}->query('COMMIT; SELECT 1'), '1', 'and commits');
is($holder{reader}->query('SELECT count(*) > 0 FROM telemetry'), 't', 'a session that held nothing lives');
($rc, undef, $err) = $s->finish_sql($beyond);
is($rc, 0, 'the load of appends and reads had no error') or diag($err);

# Nobody but retention itself waited for a lock: it stands in the queue for 10 ms at most, and who waits for longer than a second is
# in the log.
my @waits = grep { /still waiting for|acquired .* after/ } split /\n/, PostgreSQL::Test::Utils::slurp_file($s->node->logfile);
my $keeper = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'keeper'");
is(join("\n", grep { !/\[$keeper\]/ && /AccessShareLock|RowExclusiveLock on relation/ } @waits), '', 'no reader or appender waited for a table');
is($s->sql("SELECT fleetlog.tail('telemetry', 0) - fleetlog.head('telemetry', 0) = count(*) FROM telemetry"), 't', 'what is left is dense');

# A query through the stream's plan that reads young rows only holds the shard's table: the space comes back all the same.
$s->sql($fill);
my $young = $s->session;
my $tail = $s->sql("SELECT fleetlog.tail('telemetry', 0)");
$young->query('SET fleetlog.enable_stream_scan = off') if $s->sql("SELECT count(*) FROM pg_settings WHERE name = 'fleetlog.enable_stream_scan'");
$young->query("BEGIN; SELECT count(*) FROM telemetry WHERE log_offset >= $tail - 10");
my $cut = $tail - 1200;
my @doomed = split /\n/, $s->sql("SELECT pg_relation_filepath(segment) FROM fleetlog._segments('telemetry') WHERE upper <= $cut");
cmp_ok(scalar @doomed, '>', 0, 'there are segments to go');
$s->sql("SELECT fleetlog.trim_head('telemetry', 0, $cut, NULL)");
my $data = $s->node->data_dir;
FleetlogTest::wait_until(sub { !grep { -s "$data/$_" } @doomed }, 'the files of old segments to be given back');
is($young->query('SELECT 1'), '1', 'while the session that reads young rows lives');
$young->query('COMMIT');
$s->wait_for($segments, '0', 'the empty segments to go when it is done');

# A query that is cancelled while a scan of ours reads: it is told what happened.
$s->sql($fill);
$s->stop_points('scan_page');
my $scanning = $s->session;
$scanning->query('\\set VERBOSITY verbose');
my $scanner = $pid->($scanning);
my ($doomed, $upper) = split /\|/, $s->sql("SELECT segment, upper FROM fleetlog._segments('telemetry') WHERE upper <= fleetlog.tail('telemetry', 0) ORDER BY upper LIMIT 1");
$scanning->send("SELECT count(payload) FROM $doomed", 'end-of-scan');
$s->wait_for("SELECT wait_event = 'Extension' FROM pg_stat_activity WHERE pid = $scanner");
$s->sql("SELECT fleetlog.trim_head('telemetry', 0, $upper, NULL)");
$s->wait_for($segments, '0', 'its segment to go');
$scanning->take('end-of-scan');
like($scanning->error, qr/LF101/, 'a scan that notices says LF101');
like($scanning->error, qr/The oldest offset is $upper/, 'and the oldest offset');
$s->stop_points();
is($scanning->query('SELECT 1'), '1', 'and its session goes on');

# A segment that only workers of a parallel query hold: its leader is cancelled.
$s->sql($fill);
$scanning->query('SET parallel_leader_participation = off; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0');
like($scanning->query('EXPLAIN SELECT count(payload) FROM telemetry'), qr/Gather.*Parallel Custom Scan/s, 'a parallel plan');
$s->stop_points('scan_page');
$upper = $s->sql("SELECT upper FROM fleetlog._segments('telemetry') WHERE upper <= fleetlog.tail('telemetry', 0) AND upper > fleetlog.head('telemetry', 0) ORDER BY upper LIMIT 1");
$scanning->send('SELECT count(payload) FROM telemetry', 'end-of-parallel');
$s->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event = 'Extension'");
is($s->sql("SELECT count(*) FROM pg_locks WHERE pid = $scanner AND relation IN (SELECT segment FROM fleetlog._segments('telemetry'))"), '0', 'the leader holds no segment');
$s->sql("SELECT fleetlog.trim_head('telemetry', 0, $upper, NULL)");
$s->wait_for($segments, '0', 'the segment that workers hold to go');
$scanning->take('end-of-parallel');
like($scanning->error, qr/57014|LF101/, 'the query is cancelled');
$s->stop_points();
is($scanning->query('SELECT 1'), '1', 'and its session goes on');
$scanning->quit;

is($s->crashes, '', 'no crash');
$_->quit for values %holder, $young;
$s->node->stop;
done_testing();
