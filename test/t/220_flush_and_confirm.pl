# L5, DESIGN "Acknowledgement": the durable tail moves by the flusher alone while it runs, by whoever commits where none
# runs, and for a quorum stream only with the standbys; after a promotion and after a crash it begins where it must.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('tails', no_wait => 1, conf => "fleetlog.worker_retry = 50ms\nfleetlog.mqtt_listen = ''\nfleetlog.max_shards = 40\n");
my $node = $s->node;

sub tails
{
    my ($stream, $shard) = @_;
    $shard //= 0;
    return $s->sql("SELECT visible_tail, flushed_tail, durable_tail FROM fleetlog.stat_stream WHERE stream = '$stream'::regclass AND shard = $shard");
}
# Without waiting for the flush, as workers commit: whoever waits has flushed for himself, and may then say so.
sub append { my ($stream) = @_; return $s->sql("SET synchronous_commit = off; SELECT (fleetlog.append('$stream', 'k', 'x')).log_offset"); }
sub running { $s->wait_for("SELECT count(*) = 4 FROM fleetlog.stat_worker WHERE state NOT LIKE 'starting%'"); return; }

running();
$s->sql("SELECT fleetlog.create_stream('local')");

# A session sees its own commit at once, again and again.
my $late = 0;
for my $i (1 .. 50)
{
    append('local');
    $late++ if $s->sql("SELECT fleetlog.tail('local', 0)") != $i;
}
is($late, 0, 'after each commit its session finds the tail beyond its record');

# Held back before the flush, then between flush and publication.
for my $point ('flusher_before_flush', 'flusher_before_publish')
{
    my $before = $s->sql("SELECT fleetlog.tail('local', 0)");

    $s->stop_points($point);
    # The flusher stays there until we say so: to come back is all.
    append('local');
    pass("$point: COMMIT returns all the same");
    $s->wait_stopped_at($point);
    append('local');
    is($s->sql("SELECT fleetlog.tail('local', 0)"), $before, "$point: the durable tail does not move");
    my $visible = $before + 2;
    is(tails('local'), "$visible|$before|$before", "$point: nobody else publishes");
    is($s->sql("SELECT waits_for FROM fleetlog.stat_stream WHERE stream = 'local'::regclass"), 'flush', "$point: a view says what it waits for");
    $s->stop_points();
    $s->wait_for("SELECT fleetlog.tail('local', 0) = $visible");
    pass("$point: released, it moves");
}

# The flusher is terminated while it holds copies: nothing is lost.
my $tail = $s->sql("SELECT fleetlog.tail('local', 0)");
$s->stop_points('flusher_before_publish');
append('local');
$s->wait_stopped_at('flusher_before_publish');
$s->stop_points();
my $flusher = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'flusher'");
$s->sql("SELECT pg_terminate_backend($flusher)");
$s->wait_for("SELECT fleetlog.tail('local', 0) = $tail + 1");
running();
pass('a terminated flusher leaves nothing unpublished');

# Nobody flushes: sessions do it for themselves.
$s->sql('SELECT fleetlog.pause()');
append('local');
is($s->sql("SELECT fleetlog.tail('local', 0)"), $tail + 2, 'paused: who asks for the tail publishes it');
is(tails('local'), join('|', ($tail + 2) x 3), 'paused: for everybody');
$s->sql('SELECT fleetlog.resume()');
running();

# A clock that is set forward and back: append times never step back.
$s->sql("SELECT fleetlog.create_stream('clock')");
for my $offset (0, 3600_000, -3600_000)
{
    $s->set_conf('fleetlog.clock_offset' => $offset);
    $s->wait_for("SELECT setting FROM pg_settings WHERE name = 'fleetlog.clock_offset'", $offset);
    append('clock') for 1 .. 2;
}
is($s->sql("SELECT count(*) FROM (SELECT ts - lag(ts) OVER (ORDER BY log_offset) AS step FROM clock) t WHERE step < interval '0'"), '0',
    'the clock goes forward and back, append times only forward');
is($s->sql("SELECT count(*) FROM clock WHERE ts > now() + interval '50 min'"), '4', 'and those after the step forward stay there');
$s->set_conf();
$s->sql("SELECT fleetlog.drop_stream('clock')");

# Many shards in one transaction, and the limit of the map.
$s->sql("SELECT fleetlog.create_stream('wide', shards => 30)");
$s->sql("SELECT count(fleetlog.append('wide', NULL, 'x', shard => n)) FROM generate_series(0, 29) n");
is($s->sql("SELECT count(*) FROM fleetlog.stat_stream WHERE stream = 'wide'::regclass AND durable_tail = 1"), '30',
    'a transaction over 30 shards publishes all of them');
$s->sql("SELECT fleetlog.create_stream('too_wide', shards => 30)");
my $error = $s->sql_error("SELECT count(fleetlog.append('too_wide', NULL, 'x', shard => n)) FROM generate_series(0, 29) n");
like($error, qr/53400.*HINT:.*fleetlog\.max_shards/s, 'a full map of shards is an error with the setting to raise');
$s->sql("SELECT fleetlog.drop_stream('wide')");
$s->sql("SELECT count(fleetlog.append('too_wide', NULL, 'x', shard => n)) FROM generate_series(0, 29) n");
pass('dropping a stream makes room for another');
$s->sql("SELECT fleetlog.drop_stream('too_wide')");

# A quorum stream.
my $standby = $s->new_standby('standby1');
$standby->node->start;
my %names = (synchronous_standby_names => 'FIRST 1 (standby1)');
$s->set_conf(%names);
$s->wait_for("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'");
$s->sql("SELECT fleetlog.create_stream('safe', durability => 'quorum')");
append('safe');
$s->wait_for("SELECT fleetlog.tail('safe', 0) = 1", 't', 'the confirmed tail');
pass('a quorum stream moves with its standby');
$standby->node->stop('immediate');
$s->sql("SET synchronous_commit = local; SELECT fleetlog.append('safe', 'k', 'unconfirmed'); SELECT fleetlog.append('local', 'k', 'x')");
my $after = $tail + 3;
is($s->sql("SELECT fleetlog.tail('local', 0)"), $after, 'standby stopped: a local stream goes on');
is(tails('safe'), '2|2|1', 'standby stopped: the quorum stream is flushed, not durable');
is($s->sql("SELECT waits_for FROM fleetlog.stat_stream WHERE stream = 'safe'::regclass"), 'confirmation by synchronous standbys', 'a view says why');
$s->set_conf(synchronous_standby_names => '');
$s->wait_for("SELECT waits_for = 'synchronous_standby_names is empty' FROM fleetlog.stat_stream WHERE stream = 'safe'::regclass");
$s->wait_for("SELECT state LIKE '%synchronous_standby_names is empty' FROM fleetlog.stat_worker WHERE kind = 'confirmer'");
is(tails('safe'), '2|2|1', 'names emptied: still not durable, and two views say why');
$node->stop('immediate');
$node->start;
running();
is($s->sql("SELECT fleetlog.tail('safe', 0) || ' ' || count(*) FROM safe"), '0 2', 'after a crash nothing of it is shown until confirmed');
$s->set_conf(%names);
$standby->node->start;
$s->wait_for("SELECT fleetlog.tail('safe', 0) = 2", 't', 'confirmation after the crash');
is($s->sql("SELECT fleetlog.tail('local', 0)"), $after, 'the local stream was where it was');

# Tails that were read on the standby do not survive its promotion.
my $sql = sub { $standby->node->safe_psql('fleetlog', $_[0]) };
$node->wait_for_catchup($standby->node, 'replay', $node->lsn('flush'));
is($sql->("SELECT fleetlog.tail('local', 0)"), $after, 'the standby tells the tail');
append('local') for 1 .. 5;
# They did not wait for the flush.
$s->wait_for("SELECT fleetlog.tail('local', 0)", $after + 5, 'the tail behind them');
$node->wait_for_catchup($standby->node, 'replay', $node->lsn('flush'));
$node->stop('immediate');
$standby->node->promote;
$standby->node->poll_query_until('fleetlog', "SELECT count(*) >= 4 FROM fleetlog.stat_worker WHERE state NOT LIKE 'starting%'");
is($sql->("SELECT fleetlog.tail('local', 0)"), $after + 5, 'promoted: the tail is that of the files');
is($sql->("SELECT (fleetlog.append('local', 'k', 'x')).log_offset"), $after + 5, 'and the next offset follows it');
is($sql->("SELECT fleetlog.tail('local', 0)"), $after + 6, 'and moves on');
is($s->crashes . $standby->crashes, '', 'no crash');
$standby->node->stop;
done_testing();
