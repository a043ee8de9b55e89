# S1, S2, W1, L5: who follows a quorum stream, by poll, by take or by a watch of its state table, is shown nothing before the
# synchronous standbys have confirmed it, wakes once when they have, and not before, also over a restart of the primary.
use strict;
use warnings;
use Test::More;
use JSON::PP;
use FleetlogTest;
use FleetlogTest::Watch;

my $s = FleetlogTest->new('primary', no_wait => 1, conf => "fleetlog.mqtt_listen = ''\nwal_sender_timeout = 0\n");
my $standby = $s->new_standby('standby1', conf => "fleetlog.mqtt_listen = ''\n");
my %names = (synchronous_standby_names => 'FIRST 1 (standby1)');

my $synchronous = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'";

sub standby_up
{
    $standby->node->start;
    $s->wait_for($synchronous, 't', 'the synchronous standby');
    return;
}
sub standby_down { $standby->node->stop('immediate'); return }

$standby->node->start;
$s->set_conf(%names);
$s->wait_for($synchronous, 't', 'the synchronous standby');
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('safe', durability => 'quorum'), fleetlog.create_state('now');
SELECT fleetlog.mount('plant/', 'safe', state => 'now', keep => 'last', state_lag => '0');
SELECT fleetlog.append('safe', 'plant/first', 'first');
SELECT fleetlog.create_stream('trimmed', durability => 'quorum');
SELECT fleetlog.append('trimmed', 'k', 'v') FROM generate_series(1, 5);
SQL
$s->sql("SELECT fleetlog.trim_head('trimmed', 0, 3, NULL)");

# The session that writes does not wait for standbys, so that a test can go on; readers of the stream do.
my $n = 0;
sub append
{
    $n++;
    $s->sql("SET synchronous_commit = local; SELECT fleetlog.append('safe', 'plant/$n', 'value $n')");
    return "value $n";
}
sub take_now { return $s->sql("SET synchronous_commit = local; SELECT fleetlog.text(payload) FROM fleetlog.take('loader', 'safe')") }
sub poll_now { return $s->sql("SELECT fleetlog.text(payload) FROM fleetlog.poll('safe', '{\"0\": $_[0]}')") }

is(take_now(), 'first', 'with the standby up a record is taken');
my $file = PostgreSQL::Test::Utils::tempdir() . '/watch';
my $watch = FleetlogTest::Watch->start($s, 'now', $file, '-S', 'quorum');
my $sets = sub { return join ' ', map { decode_json($_)->{payload} // '' } grep { /"(row|set)"/ } $watch->lines };
FleetlogTest::wait_until(sub { grep { /end-snapshot/ } $watch->lines }, 'the snapshot of the watch');
is($sets->(), 'first', 'and watched');

for my $round ('standby stopped', 'standby stopped, primary restarted')
{
    my $from = $n + 1;
    my $restart = $round =~ /restarted/;
    my ($poll, $take);
    my $follow = sub {
        $poll = $s->start_sql("SELECT fleetlog.text(payload), next FROM fleetlog.poll('safe', '{\"0\": $from}', wait => '1 h')");
        $take = $s->start_sql("SET synchronous_commit = local; SELECT fleetlog.text(payload) FROM fleetlog.take('waiting', 'safe', wait => '1 h')");
        $s->wait_for("SELECT count(*) FROM fleetlog.stat_waiter WHERE kind <> 'watch'", '2', 'poll and take to wait');
    };

    $s->sql("SELECT fleetlog.seek_consumer('waiting', 'safe', '{\"0\": $from}')");
    standby_down();
    $follow->() unless $restart;
    my $value = append();
    is($s->sql("SELECT fleetlog.text(payload) FROM now WHERE key = 'plant/$n'"), $value, "$round: the state table follows the server's own visibility");
    if ($restart)
    {
        $s->node->restart;
        $s->wait_for("SELECT count(*) = 2 FROM fleetlog.stat_worker WHERE kind IN ('flusher', 'confirmer') AND state <> 'starting'", 't', 'the workers');
        # The watch is the first to use the shard in this life of the server, and waits all the same.
        $s->wait_for("SELECT count(*) FROM fleetlog.stat_waiter WHERE kind = 'watch'", '1', 'the watch to come back and to wait');
        $follow->();
    }
    is($s->sql("SELECT fleetlog.tail('safe', 0) <= $from, (SELECT count(*) FROM safe)"), 't|' . ($from + 1), "$round: a SELECT sees it, but the tail is the confirmed one");
    is($s->sql("SELECT fleetlog.head('trimmed', 0), fleetlog.tail('trimmed', 0) BETWEEN 3 AND 5, (SELECT count(*) FROM fleetlog.read('trimmed', 0, 3))"),
        '3|t|' . ($restart ? 0 : 2), "$round: no tail is below its head");
    is(poll_now($from), '', "$round: poll returns nothing");
    is($s->sql("SELECT * FROM fleetlog.read('safe', 0, $from)"), '', "$round: nor does read");
    is(take_now(), '', "$round: take takes nothing");
    like($s->sql("SELECT log_offset FROM fleetlog.consumer_position WHERE consumer = 'loader'"), qr/^$from$/, "$round: and its position stays");
    # The watch decodes the change, and waits with it.
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_waiter WHERE kind = 'watch'", '1', 'the watch to wait for the confirmation');
    unlike($sets->(), qr/$value/, "$round: the watch prints nothing");
    is($s->sql("SELECT coalesce(sum(wakeups), 0) FROM fleetlog.stat_waiter WHERE kind <> 'watch'"), '0', "$round: the flush alone woke nobody");

    standby_up();
    my ($rc, $out, $err) = $s->finish_sql($poll);
    is($out, "$value|{\"0\": " . ($from + 1) . "}\n", "$round: the poll that waits gets it when it is confirmed") or diag($err);
    ($rc, $out, $err) = $s->finish_sql($take);
    is($out, "$value\n", "$round: so does the take that waits") or diag($err);
    is(poll_now($from), $value, "$round: and whoever polls now");
    is(take_now(), $value, "$round: it can be taken");
    FleetlogTest::wait_until(sub { $sets->() =~ /$value/ }, 'the watch to print the change');
    is($s->sql('SELECT empty_wakeups FROM fleetlog.stat_wait'), '0', "$round: nobody was woken in vain");
}
is($sets->(), join(' ', 'first', map { "value $_" } 1 .. $n), 'the watch printed each change once, in order');
$watch->stop;

# Nor does verify take what is not confirmed yet for what is not there.
standby_down();
append();
$s->node->restart;
is($s->sql("SELECT check_name, detail FROM fleetlog.verify('safe') WHERE NOT ok"), '', 'verify, as the first to use the stream after a restart without standbys');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
