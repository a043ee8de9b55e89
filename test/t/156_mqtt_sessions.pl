# M4, M7: sessions that outlive their connection: what CONNACK says of them, what they remember of QoS 1 and 2 over
# reconnects, takeover, restart and kill -9, when they end, and their limits.  Cases O29, O30, O48.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('sessions', conf => "fleetlog.mqtt_dialect = strict\nfleetlog.max_sessions = 10\nfleetlog.session_journal_size = 64kB\nfleetlog.worker_retry = 100ms\n");
$s->fleet(devices => 3);

# One connection of device d1 with a session; the CONNACK is kept in it.
sub session
{
    my ($id, %opt) = @_;
    my $version = $opt{version} // 5;
    my $device = delete $opt{device} // 'd1';
    my $c = $s->raw(version => $version);
    my @properties = $version == 5 ? ([ 17, $opt{expiry} // 300 ]) : ();
    my $ack = $c->login(client_id => $id, user => "acme/$device", password => "pw-$device", clean => $opt{clean} // 0, properties => \@properties);
    die 'refused: ' . (ref $ack ? $ack->{reason} : $ack // 'nothing') unless ref $ack && ($ack->{reason} == 0 || $opt{refused});
    $c->{connack} = $ack;
    return $c;
}
sub present { return $_[0]->{connack}{session_present}; }
sub stored { return $s->sql("SELECT coalesce(string_agg(fleetlog.text(payload), ' ' ORDER BY shard, log_offset), '') FROM telemetry WHERE key = '$_[0]'"); }
sub acks
{
    my ($c, $count) = @_;
    return join ' ', map { my $p = $c->read_packet; ref $p ? join(':', grep { defined } @{$p}{qw(name pid reason)}) : $p // 'nothing' } 1 .. $count;
}
sub gone { my ($id) = @_; $s->wait_for("SELECT count(*) FROM fleetlog.stat_session WHERE client_id = '$id' AND NOT ending", 0, "session $id to end"); return; }

is($s->sql("SELECT to_regclass('fleetlog.session_journal') IS NULL"), 't', 'no journal before anybody needs one');

# O29: present from the second time on; until a clean start.
for my $version (4, 5)
{
    my $id = "o29-$version";
    my $c = session($id, version => $version);
    is(present($c), 0, "version $version: O29: a fresh session is not present");
    is($s->sql("SELECT identity || ' ' || connected || ' ' || expiry FROM fleetlog.stat_session WHERE client_id = '$id'"),
        'acme/d1 true ' . ($version == 5 ? '00:05:00' : '01:00:00'), "version $version: it is seen");
    $c->reset;
    $c = session($id, version => $version);
    is(present($c), 1, "version $version: O29: the second time it is");
    $c->disconnect;
    $c = session($id, version => $version, clean => 1);
    is(present($c), 0, "version $version: not after a clean start");
    $c->disconnect;
    $c = session($id, version => $version);
    is(present($c), $version == 5 ? 1 : 0, "version $version: whose own session is kept where it has an expiry");
    $c->disconnect;
}
is(FleetlogTest::Mqtt::property(session('o29-5')->{connack}, 17), 300, 'the expiry is announced');
is(FleetlogTest::Mqtt::property(session('o29-5', expiry => 4294967295)->{connack}, 17), 3600, 'one that is too long is cut, and announced');

# O30: nothing is kept where nothing was asked for.
my $c = session('o30', expiry => 0);
$c->reset;
gone('o30');
is(present(session('o30', expiry => 0)), 0, 'O30: no session is left behind');
$c = session('o30');
$c->disconnect;
$c = session('o30', expiry => 0);
is(present($c), 1, 'a session is taken up by a connection with which it ends');
$c->reset;
gone('o30');
$c = session('o30');
$c->send_hex('e0 07 00 05 11 00000000');
gone('o30');
pass('the last word may end it at once');
$c = session('o30', expiry => 0);
$c->send_hex('e0 07 00 05 11 0000012c');
is($c->ending, '0x82', 'but not begin it');
sub expiry { return $s->sql("SELECT expiry FROM fleetlog.stat_session WHERE client_id = '$_[0]'"); }
$c = session('o30');
$c->send_hex('e0 07 00 05 11 00001c20');
$s->wait_for("SELECT NOT connected FROM fleetlog.stat_session WHERE client_id = 'o30'", 't', 'the end of the connection');
is(expiry('o30'), '01:00:00', 'it may keep it longer, up to the limit');
session('o30', expiry => 0)->disconnect;
gone('o30');

# Its time is up.
$c = session('short', expiry => 1);
$c->disconnect;
gone('short');
is(present(session('short', expiry => 0)), 0, 'a session ends when its time is up');

# What is remembered: within reconnects, over a stop and a kill -9.
my %again = (
    reconnect => sub { $c->reset; },
    restart => sub { $c->close; $s->node->restart; $s->wait_for_mqtt; },
    crash => sub { $c->close; $s->kill9_and_start; });
for my $how (qw(reconnect restart crash))
{
    my $id = "r-$how";
    my $topic = "acme/d1/$how";

    $c = session($id);
    $c->publish($topic, 'one', qos => 2, pid => 1);
    is(acks($c, 1), 'PUBREC:1:0', "$how: received");
    $c->publish($topic, 'two', qos => 2, pid => 2);
    is(acks($c, 1), 'PUBREC:2:0', "$how: received");
    $c->publish_released($topic, 'three', pid => 3);
    $c->publish($topic, 'four', qos => 1, pid => 4);
    is(acks($c, 1), 'PUBACK:4:0', "$how: acknowledged");
    $again{$how}->();

    $c = session($id);
    is(present($c), 1, "$how: the session is there");
    $c->publish($topic, 'one', qos => 2, pid => 1, dup => 1);
    is(acks($c, 1), 'PUBREC:1:0', "$how: O48: what was received is answered");
    $c->pubrel(1);
    is(acks($c, 1), 'PUBCOMP:1:0', "$how: and released");
    $c->pubrel(2);
    is(acks($c, 1), 'PUBCOMP:2:0', "$how: also without being sent again");
    $c->pubrel(3);
    is(acks($c, 1), 'PUBCOMP:3:146', "$how: a release is not forgotten");
    $c->publish($topic, 'four', qos => 1, pid => 4, dup => 1);
    is(acks($c, 1), 'PUBACK:4:0', "$how: QoS 1 sent again is acknowledged");
    is(stored($topic), 'one two three four', "$how: nothing is stored twice");
    $c->publish($topic, 'other', qos => 1, pid => 4, dup => 1);
    is(acks($c, 1), 'PUBACK:4:0', "$how: other content under the same identifier");
    $c->publish($topic, 'four', qos => 1, pid => 5);
    is(acks($c, 1), 'PUBACK:5:0', "$how: and the same without DUP");
    $c->publish_released($topic, 'one', pid => 1);
    $c->publish_released($topic, 'three', pid => 3);
    is(stored($topic), 'one two three four other four one three', "$how: are new messages");

    # A client that has lost its memory: the identifier is in use here, and stands for something new there.
    $c->publish($topic, 'before', qos => 2, pid => 9);
    is(acks($c, 1), 'PUBREC:9:0', "$how: received");
    $again{$how}->();
    $c = session($id);
    $c->publish($topic, 'after', qos => 2, pid => 9);
    is(acks($c, 1), 'PUBREC:9:0', "$how: an old identifier with a new message");
    $c->publish($topic, 'after', qos => 2, pid => 9, dup => 1);
    is(acks($c, 1), 'PUBREC:9:0', "$how: which is one message itself");
    $c->pubrel(9);
    is(acks($c, 1), 'PUBCOMP:9:0', "$how: and is released");
    like(stored($topic), qr/ before after$/, "$how: is not swallowed");
    $c->disconnect;
}

# A message is under way when its client comes back, at the same door or at another: it is found.
for my $round (1 .. 6)
{
    $c = session('taken');
    $s->stop_points('journal_after_write', 'appender_after_write');
    $c->publish('acme/d1/taken', "n$round", qos => 2, pid => 1);
    $s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE stop_point IN ('journal_after_write', 'appender_after_write')");
    my $next = $s->raw;
    $next->send_raw($next->connect_packet(client_id => 'taken', user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, 300 ] ]));
    ok($next->quiet(0.1), 'who comes back waits while his message is written');
    $s->stop_points();
    my $ack = $next->expect('CONNACK');
    is($ack->{session_present}, 1, 'and finds his session');
    $next->publish('acme/d1/taken', "n$round", qos => 2, pid => 1, dup => 1);
    is(acks($next, 1), 'PUBREC:1:0', 'his message is answered');
    $next->pubrel(1);
    is(acks($next, 1), 'PUBCOMP:1:0', 'and complete');
    $next->disconnect;
}
is(stored('acme/d1/taken'), 'n1 n2 n3 n4 n5 n6', 'each was stored once');

# The last word ends the session, and its client comes back before that is written.
for my $round (1 .. 6)
{
    $c = session('last-word');
    is(present($c), 0, 'a new session');
    $s->stop_points('journal_after_write', 'appender_after_write');
    $c->send_hex('e0 07 00 05 11 00000000');
    $s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE stop_point IN ('journal_after_write', 'appender_after_write')");
    my $next = $s->raw;
    $next->send_raw($next->connect_packet(client_id => 'last-word', user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, 300 ] ]));
    ok($next->quiet(0.1), 'who comes back waits while the end is written');
    $s->stop_points();
    is($next->expect('CONNACK')->{session_present}, 0, 'and finds no session');
    $next->send_hex('e0 07 00 05 11 00000000');
    is($next->ending, 'closed', 'closed');
    gone('last-word');
}

# A door that ends leaves its sessions to the others.
$c = session('door');
$c->publish('acme/d1/door', 'one', qos => 2, pid => 1);
is(acks($c, 1), 'PUBREC:1:0', 'received');
my $door = $s->sql("SELECT door FROM fleetlog.stat_session WHERE client_id = 'door'");
$s->sql("SELECT pg_terminate_backend(pid) FROM fleetlog.stat_worker WHERE kind = 'front_door' AND index = $door");
$s->wait_for("SELECT connected FROM fleetlog.stat_session WHERE client_id = 'door'", 'f', 'the door to have gone');
$s->wait_for_mqtt;
$c = session('door');
is(present($c), 1, 'a session outlives its door');
$c->publish('acme/d1/door', 'one', qos => 2, pid => 1, dup => 1);
is(acks($c, 1), 'PUBREC:1:0', 'with what it remembers');
is(stored('acme/d1/door'), 'one', 'stored once');

# Snapshots: the journal is given up, nothing is forgotten.
$c = session('snap');
$c->publish('acme/d1/snap', 'kept', qos => 2, pid => 60000);
is(acks($c, 1), 'PUBREC:60000:0', 'received');
my $before = $s->sql("SELECT fleetlog.head('fleetlog.session_journal', 0)");
my $pid = 1;
FleetlogTest::wait_until(sub {
        $c->publish_released('acme/d1/many', 'x', pid => $_) for $pid .. $pid + 99;
        $pid += 100;
        return $s->sql("SELECT fleetlog.head('fleetlog.session_journal', 0)") > $before;
    }, 'a snapshot', 120);
cmp_ok($s->sql("SELECT fleetlog.head('fleetlog.session_snapshot', 0)"), '>', 0, 'the snapshot before it is given up, too');
$c->close;
$s->kill9_and_start;
$c = session('snap');
is(present($c), 1, 'after a crash the session comes from the snapshot');
$c->publish('acme/d1/snap', 'kept', qos => 2, pid => 60000, dup => 1);
is(acks($c, 1), 'PUBREC:60000:0', 'with what it remembers');
is(stored('acme/d1/snap'), 'kept', 'stored once');
$c->disconnect;
my $log = PostgreSQL::Test::Utils::slurp_file($s->node->logfile);
like($log, qr/fleetlog: [1-9]\d* sessions are known/, 'the log says how many sessions are known');

# Nobody decodes the journal.
$s->node->append_conf('postgresql.conf', "wal_level = logical\n");
$s->node->restart;
$s->wait_for_mqtt;
$s->sql("SELECT pg_create_logical_replication_slot('slot', 'test_decoding')");
$c = session('snap');
$c->publish_released('acme/d1/decoded', 'x');
$s->wait_for("SELECT count(*) > 0 FROM pg_logical_slot_peek_changes('slot', NULL, NULL) WHERE data ~ 'telemetry'");
is($s->sql("SELECT count(*) FROM pg_logical_slot_peek_changes('slot', NULL, NULL) WHERE data ~ '^table fleetlog.session_'"), 0, 'the journal is not decoded');
$s->sql("SELECT pg_drop_replication_slot('slot')");
$c->disconnect;

# Limits.
my @many = map { session("many$_", device => 'd2', refused => 1) } 1 .. 12;
is($many[-1]{connack}{reason}, 0x97, 'beyond fleetlog.max_sessions: 0x97');
is(session('clean', device => 'd3', expiry => 0)->{connack}{reason}, 0, 'a connection without session is let in');
$_->close for @many;

# Forgotten on purpose.
$s->sql("SELECT fleetlog.drop_stream('fleetlog.session_journal')");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_session", 0, 'sessions to be forgotten with their journal');
$c = session('snap');
is(present($c), 0, 'sessions are forgotten with their journal');
$c->publish_released('acme/d1/anew', 'x');
$c->reset;
is(present(session('snap')), 1, 'and new ones are kept in a new one');

is($s->density_faults, '', 'offsets dense');
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
