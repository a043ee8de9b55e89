# M6, M7, M12: sessions that were offline for long.  A herd of them, each with a topic of its own and three records in a history
# of thousands, reads at most twice that history together; one that wants almost all of it gets all, in order, over the seam
# to what is published meanwhile, with no backlog in memory, and front doors that wait for no disk; where retention has passed the
# bookmark the session resumes at the oldest record, and is told how many are gone.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time usleep);
use FleetlogTest;

# FLEETLOG_HISTORY and FLEETLOG_HERD set the sizes by hand; those of the requirement are script/bench's (herd).
my $records = $ENV{FLEETLOG_HISTORY} || ($ENV{FLEETLOG_LONG} ? 1_000_000 : 20_000);
my $herd = $ENV{FLEETLOG_HERD} || ($ENV{FLEETLOG_LONG} ? 500 : 100);
my $s = FleetlogTest->new('catchup',
    conf => "fleetlog.worker_retry = 100ms\nautovacuum = off\nmax_wal_size = 4GB\nfsync = off\nshared_buffers = 64MB\n");
$s->fleet(devices => 1, shards => 1);

sub session
{
    my ($id, %opt) = @_;
    my $c = $s->raw;
    my $ack = $c->login(client_id => $id, user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, 3000 ], @{ $opt{properties} // [] } ]);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    $c->{present} = $ack->{session_present};
    return $c;
}
sub gone { $s->wait_for('SELECT count(*) FROM fleetlog.stat_session WHERE connected', '0', 'all to have gone'); return; }

# Pages of the history that anybody has looked at, when all processes have told and nobody looks at more.
sub pages_read
{
    my ($last, $same) = (-1, 0);

    FleetlogTest::wait_until(
        sub {
            my $now = $s->sql("SELECT sum(heap_blks_read + heap_blks_hit) FROM pg_statio_user_tables WHERE relid IN (SELECT relid FROM pg_partition_tree('telemetry') WHERE isleaf)");
            $same = $now == $last ? $same + 1 : 0;
            $last = $now;
            usleep(500_000);
            return $same >= 5;
        },
        'the counters to stand still');
    return $last;
}

sub memory
{
    my $sum = 0;
    for my $pid (split /\n/, $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind IN ('front_door', 'reader') AND pid IS NOT NULL"))
    {
        $sum += $1 if PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m;
    }
    return $sum;
}

# ---- everybody subscribes and leaves ----

my $sleeper = session('sleeper');
$sleeper->subscribe([ [ 'acme/d1/t', 1 ] ]);
my $wide = session('wide');
$wide->subscribe([ [ 'acme/d1/t/#', 1 ], [ 'acme/d1/+/7', 1 ] ]);
my $gapped = session('gapped');
$gapped->subscribe([ [ 'acme/d1/t', 1 ] ], properties => [ [ 38, 'fl-position', 'on' ] ]);
$_->disconnect for $sleeper, $wide, $gapped;
# Of each pair one is there with the first herd, the other with the second.
for my $n (1 .. $herd)
{
    for my $which ('a', 'b')
    {
        my $c = session("$which$n");
        # Exact, or all below a topic that is its own.
        $c->subscribe([ [ $n % 2 ? "acme/d1/h/$n" : "acme/d1/h/$n/#", 1 ] ]);
        $c->disconnect;
    }
}
# They come one after the other, each with a pass of its own.
my $single = 12;
for my $n (1 .. $single)
{
    my $c = session("single$n");
    $c->subscribe([ [ "acme/d1/h/$n", 1 ] ]);
    $c->disconnect;
}
gone();

# ---- the history: every so many records there is one for somebody of the herd ----

my $step = int($records / ($herd * 3 + 3));
my $topic = "CASE WHEN i % $step = 5 AND i / $step < 3 * $herd THEN 'acme/d1/h/' || (i / $step) % $herd + 1 ELSE 'acme/d1/t' END";
# Some of these are large.
my $size = "CASE WHEN i % $step = 5 AND i / $step % 7 = 0 THEN 1000 ELSE 6 END";
my $rows = "COPY (SELECT 0, i, now() + (i / 20) * interval '1 us', $topic, convert_to(i || ' ' || (SELECT string_agg(md5(i || ' ' || j), '') FROM generate_series(1, $size) j), 'UTF8') FROM generate_series(0, $records - 1) i) TO STDOUT";
my $psql = "psql -X -q -v ON_ERROR_STOP=1 -d '" . $s->node->connstr('fleetlog') . "'";
is(system("$psql -c \"$rows\" | $psql -c \"COPY telemetry (shard, log_offset, ts, key, payload) FROM STDIN\""), 0, "$records records are loaded");
my $pages = $s->sql("SELECT sum(pg_relation_size(relid)) / 8192 FROM pg_partition_tree('telemetry') WHERE isleaf");
my %mine;
push @{ $mine{ $_ % $herd + 1 } }, $_ * $step + 5 for 0 .. 3 * $herd - 1;

sub numbers { return join ' ', map { ($_->{payload} =~ /^(\d+)/)[0] // 'none' } @_; }

# ---- the herd ----

# The reader is held until all are there, so that it depends on nobody's pace who comes before the pass begins.
for my $which ('a', 'b')
{
    my $round = $which eq 'a' ? 'a herd' : 'a herd and a reader that ends';

    $s->stop_points('reader_turn');
    $s->wait_stopped_at('reader_turn');
    my $before = $which eq 'a' ? pages_read() : 0;
    my @herd = map { session("$which$_") } 1 .. $herd;
    is(scalar(grep { !$_->{present} } @herd), 0, "$round: all sessions are there");
    $s->wait_for('SELECT count(*) FROM fleetlog.stat_connection WHERE lagging', $herd, 'all to wait for their history');
    if ($which eq 'a')
    {
        # While it waits one is taken over, and one goes away.
        $herd[1] = session('a2');
        $herd[2]->disconnect;
        $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'a3'", '0', 'it to be gone');
        $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE lagging AND client_id = 'a2'", '1', 'its next connection to wait');
    }
    else
    {
        my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'reader'");

        $s->sql("SELECT pg_terminate_backend($pid)");
        $s->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'reader' AND pid <> $pid", '1', 'the next reader');
    }
    $s->stop_points();
    my @wrong;
    for my $n (1 .. $herd)
    {
        next if $n == 3 && $which eq 'a';
        my $got = numbers($herd[ $n - 1 ]->messages(3));
        push @wrong, "$which$n: $got instead of @{ $mine{$n} }" if $got ne "@{ $mine{$n} }";
    }
    is(join("\n", @wrong), '', "$round: each gets its three records, in order");
    $s->wait_for('SELECT count(*) FROM fleetlog.stat_connection WHERE lagging', '0', 'all to be with the live feed');
    # While there is no reader they may begin to read by themselves: those pages are not counted.
    if ($which eq 'a')
    {
        my $read = pages_read() - $before;

        note("$round: $read pages were read of $pages");
        cmp_ok($read, '<=', 2 * $pages, "$round: no more pages were read than twice all of them");
        cmp_ok($s->sql("SELECT records FROM fleetlog.stat_worker WHERE kind = 'reader'"), '>=', 3 * $herd - 3, "$round: by the reader");
        $herd[2] = session('a3');
        is(numbers($herd[2]->messages(3)), "@{ $mine{3} }", 'who went away gets its own when it comes again');
    }
    # Live again, and nothing comes twice.
    my $publisher = $s->device('d1', client_id => 'publisher');
    $publisher->publish_acked("acme/d1/h/$_", "live $_") for 1, $herd;
    is(join(' ', map { $_->{payload} } map { $_->messages(1) } @herd[ 0, -1 ]), "live 1 live $herd", "$round: then what is live");
    $_->disconnect for @herd, $publisher;
    gone();
}

# ---- what others have in memory stays there ----

$s->node->restart;
$s->wait_for_mqtt;
$s->sql('CREATE EXTENSION pg_buffercache');
for my $n (1 .. $single)
{
    my $c = session("single$n");
    is(numbers($c->messages(3)), "@{ $mine{$n} }", 'a pass for one') if $n == 1;
    $c->messages(3) if $n > 1;
    $c->disconnect;
}
gone();
my $buffers = $s->sql("SELECT count(*) FROM pg_buffercache b JOIN pg_partition_tree('telemetry') p ON p.isleaf AND b.relfilenode = pg_relation_filenode(p.relid)");
cmp_ok($buffers, '<', 200, "$single passes over $pages pages went through a few buffers ($buffers are filled)");

# ---- one that wants almost all of it, while live traffic goes on ----

# What a process of this kind has read from files since it was started: from the kernel's cache or from the disk.
sub bytes_read
{
    my ($kind) = @_;
    my $sum = 0;

    for my $pid (split /\n/, $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = '$kind' AND pid IS NOT NULL"))
    {
        $sum += $1 if PostgreSQL::Test::Utils::slurp_file("/proc/$pid/io") =~ /^rchar: (\d+)/m;
    }
    return $sum;
}

# Nothing of the history is in memory.
$s->node->restart;
$s->wait_for_mqtt;
my $publisher = $s->device('d1', client_id => 'publisher2');
my $live = $s->device('d1', client_id => 'live');
$live->subscribe([ [ 'acme/d1/t', 1 ] ]);
$publisher->publish_acked('acme/d1/t', 'first');
$live->messages(1);
my $before = memory();
my ($by_doors, $by_reader) = map { bytes_read($_) } 'front_door', 'reader';
my @got;
my $sent = 0;
$sleeper = session('sleeper');
is($sleeper->{present}, 1, 'the session is there');
my $stored = $records - 3 * $herd;
my $most = 0;
while (@got < $stored + 50)
{
    my $p = $sleeper->read_packet;
    last unless ref $p;
    next unless $p->{name} eq 'PUBLISH';
    $sleeper->puback($p->{pid});
    push @got, $1 if $p->{payload} =~ /^(\d+)/;
    # Live messages all the way.
    if ($sent < 50 && @got >= $sent * $stored / 50)
    {
        $publisher->publish_acked('acme/d1/t', ($records + $sent++) . ' live');
        is(($live->messages(1))[0]{payload}, ($records + $sent - 1) . ' live', 'who is with the feed gets it meanwhile') if $sent % 10 == 1;
        $live->messages(1) if $sent % 10 != 1;
        my $now = memory();
        $most = $now - $before if $now - $before > $most;
    }
}
is(scalar @got, $stored + 50, "all $stored records and what came meanwhile");
my ($disorder) = grep { $got[$_] <= $got[ $_ - 1 ] } 1 .. $#got;
is($disorder, undef, 'in order, none twice');
($by_doors, $by_reader) = (bytes_read('front_door') - $by_doors, bytes_read('reader') - $by_reader);
note("of $pages pages doors have read " . int($by_doors / 8192) . ' from files, the reader ' . int($by_reader / 8192));
cmp_ok($by_doors, '<', $pages * 8192 / 4, 'front doors leave it to the reader to wait for the disk');
cmp_ok($by_reader, '>', $pages * 8192 / 2, 'which does');
cmp_ok($most, '<', 16 * 1024, "front doors and reader grew by $most kB at most");

# ---- retention has passed the bookmark ----

my $tail = $s->sql("SELECT durable_tail FROM fleetlog.stat_stream WHERE stream = 'telemetry'::regclass");
my $head = $tail - 3000;
$s->sql("SELECT fleetlog.trim_head('telemetry', 0, $head, $tail)");
$gapped = session('gapped');
my ($first) = $gapped->messages(1);
my %told = map { $_->[1] => $_->[2] } grep { $_->[0] == 38 } @{ $first->{properties} };
my $oldest = $s->sql("SELECT min(log_offset) FROM telemetry WHERE key = 'acme/d1/t'");
is($told{'fl-offset'}, $oldest, 'it resumes at the oldest record');
is($told{'fl-gap'}, $head, 'and is told how many are gone');
my $rest = $s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/t'") - 1;
is(scalar($gapped->messages($rest)), $rest, 'it gets the rest');
$s->wait_for("SELECT dropped FROM fleetlog.stat_connection WHERE client_id = 'gapped'", $head, 'the gap to be counted');

# It passes them while they wait for the reader.
$s->stop_points('reader_turn');
$s->wait_stopped_at('reader_turn');
$wide = session('wide');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE lagging AND client_id = 'wide'", '1', 'it to wait');
$s->sql("SELECT fleetlog.trim_head('telemetry', 0, $head + 1000, $tail)");
$s->stop_points();
$publisher->publish_acked('acme/d1/t', 'the end');
$rest = $s->sql("SELECT count(*) FROM telemetry WHERE key IN ('acme/d1/t', 'acme/d1/h/7')");
my @wide = $wide->messages($rest);
is(scalar @wide, $rest, 'all that is left');
is($wide[-1]{payload}, 'the end', 'up to what is live');
$s->wait_for("SELECT dropped FROM fleetlog.stat_connection WHERE client_id = 'wide'", $head + 1000, 'that gap to be counted, too');

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
