
# L11: FleetlogScan answers as the ordinary plan does.  A stream with all that makes segments awkward (several shards and
# many segments, small and large batches, batches rolled back with times from the future, history in one segment that is
# newer than the next one's) is asked random questions, with constants, parameters, joins, both directions, LIMIT,
# parallel workers and rescans; each is answered twice, by the scan node and with fleetlog.enable_stream_scan off.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $seed = $ENV{FLEETLOG_SEED} // time;
my $questions = ($ENV{FLEETLOG_ROUNDS} // 3) * 30;
srand($seed);
note "seed $seed, $questions questions";

my $s = FleetlogTest->new('scanmodel', no_wait => 1, conf => "autovacuum = off\nfsync = off\nmax_worker_processes = 20\n");

# Segments of 1,024 records, made beforehand; shard 2 stays small.
my %tail = (0 => 0, 1 => 0, 2 => 0);
$s->sql("SELECT fleetlog.create_stream('m', shards => 3, segment_bytes => 1)");
$s->sql("SELECT count(fleetlog._create_segment('m', s, n * 1024, (n + 1) * 1024)) FROM generate_series(0, 1) s, generate_series(1, 6) n");
my $clock = 0;
my $writer = $s->session;

sub insert
{
    my ($shard, $n, $step, $bytes, $end) = @_;
    my $from = $tail{$shard};
    my $last = $from + $n - 1;

    # One INSERT is one batch for as long as ts stays the same: 40 records.
    $writer->query("BEGIN; INSERT INTO m (shard, log_offset, ts, key, payload)
        SELECT $shard, n, '2024-01-01 00:00+00'::timestamptz + ($clock + (n - $from) / 40 * $step) * interval '1 s', 'k' || n % 17,
            CASE WHEN n % 11 > 0 THEN convert_to(repeat('p' || n, $bytes), 'UTF8') END FROM generate_series($from, $last) n; $end");
    die $writer->error if $writer->error;
    return if $end eq 'ROLLBACK';
    $tail{$shard} += $n;
    $clock += int($n / 40) * $step;
    return;
}

while ($clock < 1e9 && $tail{0} < 6000)
{
    my $shard = rand() < 0.1 ? 2 : int(rand(2));
    my $n = 1 + int(rand(rand() < 0.3 ? 900 : 60));

    $n = 6 * 1024 - 1 - $tail{$shard} if $tail{$shard} + $n >= 6 * 1024;
    next if $n <= 0 || ($shard == 2 && $tail{2} + $n > 1000);
    if (rand() < 0.15)
    {
        # Taken back, with times that come true much later: the pages remember them.
        my $save = $clock;
        $clock += 40000;
        insert($shard, $n, 5, 3, 'ROLLBACK');
        $clock = $save;
    }
    insert($shard, $n, int(rand(20)), rand() < 0.1 ? 300 : 1 + int(rand(8)), 'COMMIT');
}

# A segment whose history is put in late and carries the present: newer than those behind it.
$s->sql("SELECT fleetlog.create_stream('late', segment_bytes => 1)");
$s->sql("CREATE TABLE late_x (LIKE late) USING fleetlog_log");
$s->sql("INSERT INTO late_x (shard, log_offset, ts, key) SELECT 0, 1024 + n, '2024-01-01'::timestamptz + n * interval '1 s', 'k' FROM generate_series(0, 99) n");
$s->sql("ALTER TABLE late_0 ATTACH PARTITION late_x FOR VALUES FROM (1024) TO (2048)");
$s->sql("INSERT INTO late_0_0 (shard, log_offset, ts, key) SELECT 0, 924 + n, '2025-01-01'::timestamptz + n * interval '1 s', 'k' FROM generate_series(0, 99) n");
$s->sql('CREATE TABLE pos (sh int, off bigint, at timestamptz); INSERT INTO pos SELECT shard, log_offset, ts FROM m ORDER BY random() LIMIT 20');
# Workers for these few rows, started anew for each row of a join, would take all the time.
$s->sql('ALTER TABLE pos SET (parallel_workers = 0); ANALYZE pos');
$s->sql('CREATE VIEW v WITH (security_barrier) AS SELECT * FROM m WHERE log_offset % 2 = 0');

is($s->density_faults('m'), '', 'the stream is dense and its times in order');
cmp_ok($s->sql("SELECT count(*) FROM fleetlog._segments('m')"), '>', 10, 'in many segments');

sub pick { return $_[ int(rand(@_)) ] }
sub an_offset { return int(rand(6500)) - 100 }
sub a_time { return "'2024-01-01 00:00+00'::timestamptz + interval '" . int(rand($clock * 1.1) - $clock * 0.05) . " s'" }

# A condition, with its value in one of the forms that a value can have.
sub condition
{
    my $p = shift;
    my $kind = int(rand(8));
    my $value = sub { my ($v, $type) = @_; my $f = int(rand(4));
        return $v if $f == 0;
        if ($f == 1) { push @$p, "($v)::$type"; return '$' . scalar @$p }
        return "(SELECT ($v)::$type)::$type" if $f == 2;
        return "($v)::$type"; };

    return "shard " . pick('=', '=', '<', '>=', '<>') . ' ' . $value->(int(rand(4)), 'int') if $kind == 0;
    return 'shard = ANY (' . $value->(pick("'{0,2}'", "'{1}'", "'{2,NULL,1}'", "'{}'"), 'int[]') . ')' if $kind == 1;
    return 'log_offset ' . pick('<', '<=', '=', '>=', '>') . ' ' . $value->(an_offset(), pick('bigint', 'bigint', 'int')) if $kind <= 3;
    return 'log_offset = ANY (' . $value->("'{" . join(',', map { an_offset() } 1 .. 3) . "}'", 'bigint[]') . ')' if $kind == 4;
    return $value->(a_time(), 'timestamptz') . ' ' . pick('<', '<=', '=', '>=', '>') . ' ts' if $kind <= 6;
    return 'ts ' . pick('<', '>=') . ' (' . a_time() . ')::' . pick('date', 'timestamp');
}

sub question
{
    my @p;
    my $where = join(' AND ', map { condition(\@p) } 1 .. 1 + int(rand(3)));
    my $from = pick('m', 'm', 'm', 'v AS m', '(SELECT * FROM m UNION ALL SELECT * FROM m WHERE shard = 1) AS m');
    my $order = pick('shard, log_offset', 'shard DESC, log_offset DESC', 'ts, shard, log_offset', 'log_offset, shard');
    my $form = int(rand(6));
    my $sql =
        $form == 0 ? "SELECT count(*), count(payload), min(log_offset), max(log_offset), max(ts) FROM $from WHERE $where"
      : $form == 1 ? "SELECT shard, log_offset, ts, key, md5(payload) FROM $from WHERE $where ORDER BY $order LIMIT " . (1 + int(rand(50)))
      : $form == 2 ? "SELECT p.off, count(*), sum(m.log_offset) FROM pos p JOIN $from ON m.shard = p.sh AND m.log_offset " . pick('=', '>', '<') . " p.off AND $where GROUP BY 1 ORDER BY 1"
      : $form == 3 ? "SELECT p.off, x.* FROM pos p, LATERAL (SELECT shard, log_offset, key FROM m WHERE shard = p.sh AND ts " . pick('>', '<=') . " p.at AND $where ORDER BY shard, log_offset " . pick('', 'DESC') . " LIMIT 3) x ORDER BY 1, 2, 3"
      : $form == 4 ? "SELECT count(*), sum(log_offset), sum(length(payload)) FROM $from WHERE $where"
      :              "SELECT shard, count(*), max(ts) FROM $from WHERE $where AND key LIKE 'k1%' GROUP BY 1 ORDER BY 1";
    return ($sql, \@p);
}

my $session = $s->session;
my $parallel = "SET parallel_setup_cost = 10; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 3";
$session->query($parallel);
my %seen;
my $wrong = 0;
my $answers = 0;
my @kinds = ('Custom Scan', 'Parallel Custom Scan', 'Backward', 'Nested Loop');
# As many as that, and on until all kinds of plans were among them and enough had rows: chance decides.
for my $n (1 .. 50 * $questions)
{
    last if $n > $questions && $answers > $n / 4 && !grep { !$seen{$_} } @kinds;
    my ($sql, $p) = question();
    my %answer;

    $session->query(rand() < 0.25 ? 'SET max_parallel_workers_per_gather = 3' : 'SET max_parallel_workers_per_gather = 0');
    $session->query("SET enable_sort = " . pick('on', 'off') . "; SET enable_hashjoin = " . pick('on', 'on', 'off') . "; SET enable_mergejoin = " . pick('on', 'off'));
    $session->query('SET plan_cache_mode = ' . pick('force_generic_plan', 'auto'));
    for my $mode ('on', 'off')
    {
        $session->query("SET fleetlog.enable_stream_scan = $mode");
        if (@$p)
        {
            $session->query("PREPARE q AS $sql");
            $answer{$mode} = $session->query('EXECUTE q (' . join(', ', @$p) . ')') . $session->error;
            if ($mode eq 'on')
            {
                my $plan = $session->query('EXPLAIN EXECUTE q (' . join(', ', @$p) . ')');
                $seen{$1}++ while $plan =~ /(Parallel Custom Scan|Custom Scan|Backward|Gather Merge|Nested Loop|Append)/g;
            }
            $session->query('DEALLOCATE q');
        }
        else
        {
            $answer{$mode} = $session->query($sql) . $session->error;
            my $plan = $mode eq 'on' ? $session->query("EXPLAIN $sql") : '';
            $seen{$1}++ while $plan =~ /(Parallel Custom Scan|Custom Scan|Backward|Gather Merge|Nested Loop|Append)/g;
        }
    }
    $answers++ if $answer{on} ne '' && $answer{on} !~ /^0\|/;
    next if $answer{on} eq $answer{off} && $answer{on} !~ /ERROR/;
    $wrong++;
    diag "$sql\n  with (@$p)\n  scan node: $answer{on}\n  ordinary:  $answer{off}";
    last if $wrong >= 5;
}
is($wrong, 0, "$questions random questions are answered alike (seed $seed)");
cmp_ok($answers, '>', $questions / 4, 'many of them with rows');
note join(', ', map { "$_: $seen{$_}" } sort keys %seen);
ok($seen{$_}, "plans had: $_") for @kinds;

# Times out of order between segments: a bound by time finds both.
for my $where ("ts >= '2024-06-01'", "ts < '2024-06-01'", "ts > '2024-01-01 00:00:50+00' AND ts <= '2025-01-01 00:00:10+00'")
{
    my $q = "SELECT count(*), min(log_offset), max(log_offset) FROM late WHERE $where";
    is($s->sql($q), $s->sql("SET fleetlog.enable_stream_scan = off; $q"), "segments whose times are out of order: $where");
}
$_->quit for $session, $writer;
done_testing();
