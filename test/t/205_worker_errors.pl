# X3, O6: a worker that exits, is cancelled or terminated comes back without a server restart and disturbs nobody else;
# a reload keeps connections; transaction ids stay within their budget; a moved clock never turns append time back.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use FleetlogTest;
use FleetlogTest::Load;

my $s = FleetlogTest->new('workers', conf => "fleetlog.workers = 2\nfleetlog.max_xids_per_second = 50\nautovacuum = off\n");
$s->fleet(shards => 2, devices => 3);
my $started = $s->sql('SELECT pg_postmaster_start_time()');
my $checkpointer = $s->sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
$s->wait_for("SELECT string_agg(kind || '*' || n, ' ' ORDER BY kind) FROM (SELECT kind, count(*) n FROM fleetlog.stat_worker WHERE pid IS NOT NULL GROUP BY kind) x",
    'appender*1 auth*1 commands*1 confirmer*1 flusher*1 front_door*2 keeper*1 launcher*1 reader*1', 'all processes to be there');

my $load = FleetlogTest::Load->new($s, devices => 3, subscribe => 0, run => 'w');
for my $kind (qw(appender flusher confirmer keeper auth reader front_door launcher))
{
    for my $how ('pg_cancel_backend', 'pg_terminate_backend')
    {
        $load->connect_all;
        $load->pump(0.3);
        my $pid = $s->sql("SELECT min(pid) FROM fleetlog.stat_worker WHERE kind = '$kind' AND pid IS NOT NULL");
        $s->sql("SELECT $how($pid)");
        $load->pump(0.5);
        $s->wait_for("SELECT count(*) = 10 AND bool_and(pid <> $pid) FROM fleetlog.stat_worker WHERE pid IS NOT NULL", 't', "all processes after $how of $kind")
          if $how eq 'pg_terminate_backend';
        $s->wait_for("SELECT count(*) = 10 FROM fleetlog.stat_worker WHERE pid IS NOT NULL", 't', "all processes after $how of $kind");
        $load->cut_off;
        $s->wait_for_mqtt;
        # A process that was told may end only now, and take a log-in with it; whoever comes again is served.
        FleetlogTest::wait_until(
            sub {
                my $client = eval { $s->device('d1', client_id => 'after') } or return 0;
                my $reason = eval { $client->publish_acked('acme/d1/t', "after $how $kind") };
                $client->disconnect;
                return defined $reason && $reason == 0;
            },
            "$kind: a device to be served after $how");
        pass("$kind: served after $how");
    }
}
my @lost = $s->missing_payloads('telemetry', $load->acked);
is(scalar @lost, 0, 'nothing acknowledged is missing') or diag("@lost[0 .. ($#lost > 5 ? 5 : $#lost)]");
is($s->sql('SELECT pg_postmaster_start_time()'), $started, 'the server never restarted');
is($s->sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"), $checkpointer, 'nor did its other processes');

# A reload keeps connections; a listener that is added opens, one that is removed closes.
my $kept = $s->device('d1', client_id => 'kept');
my $second = PostgreSQL::Test::Cluster::get_free_port();
my $first = $s->port;
$s->set_conf('fleetlog.mqtt_listen' => "127.0.0.1:$first,127.0.0.1:$second");
FleetlogTest::wait_until(sub { my $t = { mqtt => $second }; FleetlogTest::accepts($t) }, 'the second listener');
is($kept->publish_acked('acme/d1/t', 'over the reload'), 0, 'an old connection is served after the reload');
my $via = FleetlogTest::Mqtt->open($second);
is($via->login(client_id => 'via', user => 'acme/d1', password => 'pw-d1')->{reason}, 0, 'the second listener serves');
$s->set_conf('fleetlog.mqtt_listen' => "127.0.0.1:$first");
FleetlogTest::wait_until(sub { my $t = { mqtt => $second }; !FleetlogTest::accepts($t) }, 'the second listener to close');
is($kept->publish_acked('acme/d1/t', 'over the second reload'), 0, 'still served');

# Transaction ids: a burst of one second's worth, then 50 a second whatever the load.
$load = FleetlogTest::Load->new($s, devices => 3, subscribe => 0, run => 'x', window => 5);
$load->connect_all;
$load->pump(3);
my ($begin, $xid, $acked) = (time, $s->sql('SELECT txid_snapshot_xmax(txid_current_snapshot())'), scalar $load->acked);
$load->pump(5);
$load->pump($FleetlogTest::TIMEOUT, sub { $load->acked > $acked + 100 });
my $used = $s->sql('SELECT txid_snapshot_xmax(txid_current_snapshot())') - $xid;
my $seconds = time - $begin;
cmp_ok($load->acked - $acked, '>', 100, 'publishes go on under the budget');
# Some more are the keeper's.
cmp_ok($used, '<', 50 * ($seconds + 1) + 20 + 5 * $seconds, sprintf 'transaction ids taken a second: %.1f', $used / $seconds);
is($load->drain, 0, 'all answered');
$load->cut_off;

# The clock steps back by an hour: ts never decreases, devices are served.
my $client = $s->device('d2');
$client->publish_acked('acme/d2/t', 'before the step');
$s->set_conf('fleetlog.clock_offset' => '-3600000');
$s->wait_for("SELECT setting FROM pg_settings WHERE name = 'fleetlog.clock_offset'", '-3600000');
is($client->publish_acked('acme/d2/t', "after the step $_"), 0, "served after the clock stepped back ($_)") for 1 .. 5;
is($s->density_faults, '', 'time never steps back in the log');
# It stays there: moved forward again, it would let the timers of connections run out that are open at that moment.

# Shutdown: what was acknowledged is there, a 5.0 client is told why.
my $last = $s->device('d3');
is($last->publish_acked('acme/d3/t', 'the last one'), 0, 'published');
$s->node->stop('fast');
is($last->ending, '0x8B', 'shutdown is told as 0x8B');
$s->node->start;
is($s->sql("SELECT count(*) FROM telemetry WHERE fleetlog.text(payload) = 'the last one'"), '1', 'and it is there after the restart');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
