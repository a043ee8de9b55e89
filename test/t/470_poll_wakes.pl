# S1: poll() wakes by latch, not by timer: many pollers of a quiet stream are not scheduled while others are written, one
# record wakes each of them once, quorum streams wake them at confirmation, and a dropped stream, a cancel or the end of a
# session leaves nobody behind.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

# A thousand of them are in 471_thousand_pollers; what is counted here is the same for each.
my $n = 40;
my $s = FleetlogTest->new('poll', no_wait => 1, conf => "max_connections = 100\nfleetlog.mqtt_listen = ''\n");

$s->sql("SELECT fleetlog.create_stream('quiet', shards => 2), fleetlog.create_stream('busy'), fleetlog.create_stream('gone')");
$s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE kind = 'flusher' AND state <> 'starting'", 't', 'the flusher');

# pgbench is one process with many sessions.
sub pollers
{
    my ($sessions, $query) = @_;
    my $file = PostgreSQL::Test::Utils::tempdir() . '/poll.sql';
    my %h = (out => '', err => '', log => PostgreSQL::Test::Utils::tempdir() . '/pollers');

    open my $f, '>', $file or die "$file: $!";
    print $f "$query;\n";
    close $f;
    $h{run} = IPC::Run::start(
        [ 'pgbench', '-n', '-c', $sessions, '-t', 1, '-f', $file, '-d', $s->node->connstr('fleetlog') ],
        '>', \$h{out}, '2>', \$h{err}, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    FleetlogTest::wait_until(sub { $s->sql('SELECT waiting FROM fleetlog.stat_wait') == $sessions }, "$sessions sessions to wait");
    return \%h;
}

sub wakeups { return $s->sql('SELECT wakeups FROM fleetlog.stat_wait') }

# Written rows equal processed transactions: each poll ended well.
sub all_done
{
    my ($h, $sessions, $what) = @_;
    $h->{run}->finish;
    like($h->{out}, qr{transactions actually processed: $sessions/$sessions}, $what);
    return;
}

{
    my $h = pollers($n, "SELECT * FROM fleetlog.poll('quiet', '{}', wait => '1 h')");
    $s->wait_asleep;
    my ($slept, $woken) = ($s->waiter_sleeps, wakeups());

    $s->sql("SELECT count(fleetlog.append('busy', 'k', 'x')) FROM generate_series(1, 10)") for 1 .. 30;
    is(wakeups(), $woken, 'records of another stream wake nobody');
    is($s->waiter_sleeps, $slept, "$n waiting sessions were not scheduled once");

    $s->sql("SELECT fleetlog.append('quiet', 'k', 'x', shard => 1)");
    all_done($h, $n, 'one record ends all of the polls');
    is(wakeups() - $woken, $n, 'by one wake-up each');
    is($s->sql('SELECT waiting || $$ $$ || timeouts FROM fleetlog.stat_wait'), '0 0', 'nobody is left, and no timer ran out');
}

# A filter that does not match: woken, passed over, asleep again; ends with the record that matches.
{
    my $at = $s->sql("SELECT next FROM fleetlog.poll('quiet', '{}') LIMIT 1");
    my $before = wakeups();
    my $h = pollers(1, "SELECT * FROM fleetlog.poll('quiet', '$at', wait => '1 h', filter => 'wanted/#')");

    for my $i (1 .. 5)
    {
        $s->sql("SELECT fleetlog.append('quiet', 'unwanted/$i', 'x')");
        $s->wait_for("SELECT wakeups >= $i FROM fleetlog.stat_waiter", 't', 'the wake-up');
    }
    $s->sql("SELECT fleetlog.append('quiet', 'wanted/1', 'x')");
    all_done($h, 1, 'the record that matches ends the poll');
    is(wakeups() - $before, 6, 'one wake-up a record, whoever published it first');
}

# Asynchronous commits are published by the flusher; the poller does not ask it.
{
    my $at = $s->sql("SELECT next FROM fleetlog.poll('busy', '{}', 100000) LIMIT 1");
    my $h = pollers(1, "SELECT * FROM fleetlog.poll('busy', '$at', wait => '1 h')");
    $s->sql("SET synchronous_commit = off; SELECT fleetlog.append('busy', 'k', 'async')");
    all_done($h, 1, 'woken by the flusher');
}

# Without a flusher those who wait publish for themselves.
{
    $s->sql('SELECT fleetlog.pause()');
    $s->wait_for("SELECT count(*) = 0 FROM fleetlog.stat_worker WHERE kind = 'flusher'", 't', 'the workers to pause');
    my $at = $s->sql("SELECT next FROM fleetlog.poll('busy', '{}', 100000) LIMIT 1");
    my $h = pollers(1, "SELECT * FROM fleetlog.poll('busy', '$at', wait => '1 h')");
    $s->sql("SET synchronous_commit = off; SELECT fleetlog.append('busy', 'k', 'paused')");
    all_done($h, 1, 'woken by the session that wrote');
    $s->sql('SELECT fleetlog.resume()');
}

# What ends a wait leaves no waiter: the stream is dropped, the statement is cancelled, the session is ended.
{
    my $h = pollers(1, "SELECT * FROM fleetlog.poll('gone', '{}', wait => '1 h')");
    $s->sql("SELECT fleetlog.drop_stream('gone')");
    $h->{run}->finish;
    like($h->{err}, qr/the stream was dropped/, 'a dropped stream ends the poll with an error');
    for my $how ('pg_cancel_backend', 'pg_terminate_backend')
    {
        my $p = pollers(2, "SELECT * FROM fleetlog.poll('quiet', '{\"0\": 1000, \"1\": 1000}', wait => '1 h')");
        $s->sql("SELECT $how(pid) FROM fleetlog.stat_waiter");
        $p->{run}->finish;
        $s->wait_for('SELECT waiting = 0 FROM fleetlog.stat_wait', 't', "nobody to be left after $how");
        pass("nobody is left after $how");
    }
}

# A client that was killed does not leave its session waiting.
{
    my $p = pollers(3, "SELECT * FROM fleetlog.poll('quiet', '{\"0\": 1000, \"1\": 1000}', wait => '1 h')");
    $p->{run}->kill_kill(grace => 0);
    $s->wait_for('SELECT waiting = 0 FROM fleetlog.stat_wait', 't', 'the sessions of a killed client to end');
    pass('nobody waits for a client that has gone');
}

# take() waits likewise, and gets what it was woken for.
{
    $s->sql("SELECT count(*) FROM fleetlog.take('c', 'busy', 100000)");
    my $h = $s->start_sql("SELECT fleetlog.text(payload) FROM fleetlog.take('c', 'busy', wait => '1 h')");
    $s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_waiter WHERE kind = 'take'", 't', 'take to wait');
    $s->sql("SELECT fleetlog.append('busy', 'k', 'for take')");
    my ($rc, $out, $err) = $s->finish_sql($h);
    is($out, "for take\n", 'take() is woken too');
}

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
