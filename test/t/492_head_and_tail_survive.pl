# L3, L7, L8: head, tail and holds survive the loss of every record, a crash, a clean restart, dump and restore, and reach a
# standby; the next offset follows the last one ever given.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use PostgreSQL::Test::Utils qw(append_to_file);
use FleetlogTest;

my $s = FleetlogTest->new('survive', conf => "fleetlog.retention_grace = '0'\n");
my $state = "SELECT st, fleetlog.head(st::regclass, 0), fleetlog.tail(st::regclass, 0), (SELECT count(*) FROM fleetlog._segments(st::regclass) WHERE pg_relation_size(segment) > 0) FROM unnest(ARRAY['expired', 'trimmed', 'part']) st ORDER BY 1";
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('expired', retention_age => '1 hour');
SELECT fleetlog.create_stream('trimmed', segment_bytes => 65536);
SELECT fleetlog.create_stream('part', segment_bytes => 65536);
SELECT count(fleetlog.append(st::regclass, 'k' || n, 'x')) FROM unnest(ARRAY['expired', 'trimmed', 'part']) st, generate_series(1, 1500) n;
SELECT fleetlog.hold('part', '{"0": [[1300, 1400]]}', 'evidence');
SELECT fleetlog.trim_head('trimmed', 0, 1500, 1500);
SELECT fleetlog.trim_head('part', 0, 1200, 1500);
SQL
# An hour passes.
$s->set_conf('fleetlog.clock_offset' => '2h');
my $gone = "expired|1500|1500|0\npart|1200|1500|1\ntrimmed|1500|1500|0";
$s->wait_for($state, $gone, 'segments to go');
is($s->sql('SELECT count(*) FROM expired'), '0', 'every record has expired');
$s->wait_for('SELECT count(*) FROM fleetlog.detached_segment', '0', 'what is left behind to go');
$s->wait_for("SELECT min(lower) FROM fleetlog._segments('expired')", '1500', 'a new segment to begin at the tail');

my $check = sub {
    my ($t, $what) = @_;
    is($t->sql($state), $gone, "$what: head and tail are the same");
    like($t->sql_error("SELECT * FROM fleetlog.read('trimmed', 0, 1499)"), qr/LF101.*1500/s, "$what: what is gone is too old");
    is($t->sql('SELECT count(*), min(log_offset) FROM part'), '300|1200', "$what: what is left is there");
};
$check->($s, 'before');
$s->node->restart;
$check->($s, 'after a restart');
$s->kill9_and_start;
$check->($s, 'after a crash');

# A standby hides the same.
my $standby = $s->new_standby('survive_standby');
$standby->node->start;
$s->sql("SELECT fleetlog.trim_head('part', 0, 1250, NULL)");
$s->catch_up($standby);
is($standby->sql("SELECT fleetlog.head('part', 0), min(log_offset), count(*) FROM part"), '1250|1250|250', 'a standby begins at the head, too');
like($standby->sql_error("SELECT * FROM fleetlog.read('part', 0, 1249)"), qr/LF101.*1250/s, 'and says what is too old');
is($standby->sql("SELECT count(*), min(next->'0'->>'offset'), min(next->'0'->>'epoch') IS NOT NULL FROM fleetlog.poll('part', '{\"0\": {\"offset\": 1490}}')"), '10|1500|t', 'it can be polled');
like($standby->sql_error("SELECT * FROM fleetlog.take('loader', 'part')"), qr/25006|read-only/, 'but nothing can be taken, for that writes');
$standby->node->stop;
$gone =~ s/1200/1250/;

# A consumer that has read a part, and policies, which hold for segments as well.
my $consumer = "SELECT consumer, shard, log_offset, epoch IS NOT NULL FROM fleetlog.consumer_position";
my $open = "SELECT count(*) FROM pg_class WHERE relname ~ '^part' AND relkind IN ('r', 'p') AND NOT relrowsecurity";
$s->sql("SELECT fleetlog.seek_consumer('loader', 'part', '{\"0\": 1300}'); SELECT count(*) FROM fleetlog.take('loader', 'part', 10)");
$s->sql("ALTER TABLE part ENABLE ROW LEVEL SECURITY; CREATE POLICY everybody ON part FOR SELECT USING (true)");
is($s->sql($consumer), 'loader|0|1310|t', 'a consumer stands in the middle');
is($s->sql($open), '0', 'row security is enabled on every segment');

# Puts the rows that register a stream first and those with its shards' tails last, as workers of a parallel pg_restore may: two lists.
my $worst_order = sub {
    my ($dump) = @_;
    IPC::Run::run([ 'pg_restore', '-l', $dump ], '>', \my $list) or die 'pg_restore -l';
    my @data = grep { / TABLE DATA / } split /\n/, $list;
    my @rest = grep { !/ TABLE DATA / } split /\n/, $list;
    my $rank = sub { $_[0] =~ /stream_config/ ? 0 : $_[0] =~ /shard_config/ ? 2 : 1 };
    my ($last) = grep { $rest[$_] =~ / (SEQUENCE SET|CONSTRAINT|INDEX|TRIGGER|FK CONSTRAINT) / } 0 .. $#rest;
    $last = @rest unless defined $last;
    append_to_file("$dump/first.list", join("\n", @rest[0 .. $last - 1], (sort { $rank->($a) <=> $rank->($b) } grep { $rank->($_) < 2 } @data)) . "\n");
    append_to_file("$dump/second.list", join("\n", (grep { $rank->($_) == 2 } @data), @rest[$last .. $#rest]) . "\n");
    return ("$dump/first.list", "$dump/second.list");
};

# Dump and restore: plain, in parallel, and in an order that a parallel one may meet.
my $restored = sub {
    my ($name, @pipeline) = @_;
    my $t = FleetlogTest->new($name, no_extension => 1, conf => "fleetlog.retention_grace = '0'\nfleetlog.clock_offset = '2h'\n");
    my $err = '';
    my $file = $s->node->backup_dir . "/$name";
    mkdir $s->node->backup_dir unless -d $s->node->backup_dir;
    IPC::Run::run([ 'pg_dump', ($name eq 'plain' ? () : ('-Fd', '-j2')), '-f', $file, '-d', $s->node->connstr('fleetlog') ], '2>', \$err) or diag($err);
    my @restore = ('pg_restore', '--exit-on-error', '-d', $t->node->connstr('fleetlog'), $file);
    if ($name eq 'ordered')
    {
        my ($first, $second) = $worst_order->($file);
        IPC::Run::run([ @restore, '-L', $first ], '>', '/dev/null', '2>', \$err);
        is($t->sql("SELECT string_agg(fleetlog.tail(st::regclass, 0)::text, ',') FROM unnest(ARRAY['expired', 'trimmed']) st"), '0,0', "$name: somebody looks in the middle of it");
        IPC::Run::run([ @restore, '-L', $second ], '>', '/dev/null', '2>', \my $more);
        $err .= $more;
    }
    else
    {
        IPC::Run::run($name eq 'plain' ? [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $t->node->connstr('fleetlog') ] : [ @restore, '-j2' ], '>', '/dev/null', '2>', \$err);
    }
    is($err, '', "$name: dump and restore say nothing");
    is($t->sql($state), $gone, "$name: heads and tails are carried");
    like($t->sql_error("SELECT * FROM fleetlog.read('part', 0, 1249)"), qr/LF101.*1250/s, "$name: what is gone is too old");
    is($t->sql('SELECT count(*), min(log_offset) FROM part'), '250|1250', "$name: what is left is there");
    like($t->sql_error("SELECT fleetlog.trim_head('part', 0, 1500, NULL)"), qr/LF108.*held by hold 1.*evidence/s, "$name: the hold holds");
    is($t->sql("SELECT fleetlog.hold('part', '{\"0\": [[1400, null]]}', 'more')"), '2', "$name: and the next one has another id");
    is($t->sql($consumer), 'loader|0|1310|t', "$name: the consumer stands where it stood");
    is($t->sql("SELECT min(log_offset), count(*) FROM fleetlog.take('loader', 'part', 5)"), '1310|5', "$name: and goes on");
    is($t->sql($open), '0', "$name: row security is enabled on every segment");
    is($t->sql("SELECT string_agg((fleetlog.append(st::regclass, 'k', 'x')).log_offset::text, ',') FROM unnest(ARRAY['expired', 'trimmed', 'part']) st"), '1500,1500,1500', "$name: offsets go on");
    is($t->sql("SELECT min(log_offset), count(*) FROM expired"), '1500|1', "$name: and are read back");
    is($t->crashes, '', "$name: no crash");
    $t->node->stop;
};
$restored->('plain');
$restored->('directory');
$restored->('ordered');

is($s->sql("SELECT string_agg((fleetlog.append(st::regclass, 'k', 'x')).log_offset::text, ',') FROM unnest(ARRAY['expired', 'trimmed', 'part']) st"), '1500,1500,1500', 'offsets go on where they were');

# A parallel restore commits a shard's row while somebody who has not seen it opens the shard.
$s->sql("SELECT fleetlog.create_stream('raced')");
my $opener = $s->session;
$s->stop_points('shard_before_entry');
$opener->send("SELECT fleetlog.tail('raced', 0)", 'opened');
$s->wait_for("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event_type = 'Extension' AND query LIKE '%raced%' AND pid <> pg_backend_pid()", '1', 'a session to open the shard');
$s->sql("INSERT INTO fleetlog.shard_config (stream, shard, head, tail) VALUES ('raced'::regclass, 0, 70, 90)");
$s->stop_points();
is($opener->take('opened'), '90', 'who opens a shard sees the tail that was restored meanwhile');
is($s->sql("SELECT fleetlog.head('raced', 0), fleetlog.tail('raced', 0)"), '70|90', 'and everybody its head');
like($s->sql_error("SELECT * FROM fleetlog.read('raced', 0, 69)"), qr/LF101.*70/s, 'below which is too old');

# A hold stops retention, too, and the view says which.
$s->sql("SELECT fleetlog.alter_stream('part', retention_age => '30 minutes')");
$s->sql("SELECT fleetlog.release_hold(1); SELECT fleetlog.hold('part', '{\"0\": [[1450, 1460]]}', 'the valve')");
$s->set_conf('fleetlog.clock_offset' => '5h');
$s->wait_for("SELECT fleetlog.head('part', 0)", '1450', 'retention to come to the hold');
$s->wait_for("SELECT retention_waits_for FROM fleetlog.stat_stream WHERE stream = 'part'::regclass", 'hold 2 at offset 1450', 'the view to name the hold');
is($s->sql("SELECT holds, oldest IS NOT NULL, retention_run_at IS NOT NULL FROM fleetlog.stat_stream WHERE stream = 'part'::regclass"), '1|t|t', 'and counts it');
$s->sql('SELECT fleetlog.release_hold(2)');
$s->wait_for("SELECT fleetlog.head('part', 0)", '1501', 'retention to go on when the hold has ended');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
