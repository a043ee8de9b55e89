# M4, M7: a will with a delay is kept with its session: published when nobody came back in time or the session is over,
# whichever is first, called back by the next connection, and once in the log, over restart and kill -9.  MQTT-3.1.2-8,
# MQTT-3.1.2-10, MQTT-3.1.3-9.
use strict;
use warnings;
use Test::More;
use Digest::MD5 qw(md5_hex);
use Time::HiRes qw(time);
use FleetlogTest;

my $s = FleetlogTest->new('wills', conf => "fleetlog.session_journal_size = 64kB\nfleetlog.worker_retry = 100ms\nwal_consistency_checking = 'all'\n");
$s->fleet(devices => 3);
my $LONG = 1000000;    # seconds nobody waits for

# A connection of device d1 with a session; with a will "w<n>" of that delay, unless it is undef.
sub client
{
    my ($id, $delay, %opt) = @_;
    my $c = $s->raw;
    my %will = defined $delay ? (will => { topic => "acme/d1/$id", payload => $opt{payload} // 'w', qos => $opt{qos} // 1,
            properties => [ [ 24, $delay ], @{ $opt{properties} // [] } ] }) : ();
    my $ack = $c->login(client_id => $id, user => 'acme/d1', password => 'pw-d1', clean => $opt{clean} // 0,
        properties => [ [ 17, $opt{expiry} // $LONG ] ], %will);
    die 'refused: ' . (ref $ack ? $ack->{reason} : $ack // 'nothing') unless ref $ack && $ack->{reason} == 0;
    $c->{connack} = $ack;
    return $c;
}
sub wills { return $s->sql("SELECT coalesce(string_agg(fleetlog.text(payload), ' ' ORDER BY shard, log_offset), '') FROM telemetry WHERE key = 'acme/d1/$_[0]'"); }
sub wait_for_wills { my (@ids) = @_; $s->wait_for("SELECT count(DISTINCT key) FROM telemetry WHERE key = ANY ('{" . join(',', map { "acme/d1/$_" } @ids) . "}')", scalar @ids, "the wills of @ids"); return; }
# The session's end publishes a will that it still has, before CONNACK.
sub end_session { my ($id) = @_; client($id, undef, clean => 1, expiry => 0)->disconnect; return; }
sub gone { my ($id) = @_; $s->wait_for("SELECT count(*) FROM fleetlog.stat_session WHERE client_id = '$id'", 0, "session $id to end"); return; }

# Many wait for the same second: what is published when a delay or a session is over.
my %then;
for my $qos (0 .. 2)
{
    my $c = client("delay$qos", 1, qos => $qos, properties => [ [ 3, 'text/plain' ], [ 38, 'b', '1' ], [ 38, 'a', '2' ] ]);
    $then{$qos} = time;
    $c->reset;
}
client('short', $LONG, expiry => 1)->reset;
client('word', $LONG)->send_hex('e0 07 04 05 11 00000000');
client('asked2', 1)->disconnect(4);
client("$_-published", 1)->reset for qw(restart crash);
wait_for_wills((map { "delay$_" } 0 .. 2), qw(short word asked2 restart-published crash-published));

# The delay is over, the session goes on.
for my $qos (0 .. 2)
{
    is($s->sql("SELECT extract(epoch FROM ts) >= $then{$qos} + 1 FROM telemetry WHERE key = 'acme/d1/delay$qos'"), 't', "QoS $qos: no will before its delay is over");
    is($s->sql("SELECT device || ' ' || (headers ->> 'content-type') || ' ' || (headers ->> 'b') || (headers ->> 'a') FROM telemetry WHERE key = 'acme/d1/delay$qos'"),
        'd1 text/plain 12', "QoS $qos: the record is that of its device, with its properties");
    my $c = client("delay$qos", undef);
    is($c->{connack}{session_present}, 1, "QoS $qos: MQTT-3.1.2-8: published when the delay is over, the session goes on");
    $c->reset;
    end_session("delay$qos");
    is(wills("delay$qos"), 'w', "QoS $qos: MQTT-3.1.2-10: a will that was published is gone");
}

# The session is over before the delay.
gone($_) for qw(short word);
is(wills('short'), 'w', 'MQTT-3.1.2-8: published when the session is over, though the delay is not');
is(wills('word'), 'w', 'the last word ends the session: published');

# Back in time.
client('back', $LONG)->reset;
is(client('back', undef)->{connack}{session_present}, 1, 'its session is there');
end_session('back');
is(wills('back'), '', 'MQTT-3.1.3-9: back before the delay is over: no will (O31)');
client('clean', $LONG)->reset;
{
    my $c = client('clean', undef, clean => 1);
    is(wills('clean'), 'w', 'MQTT-3.1.2-8: a clean start ends the session: published before CONNACK');
    is($c->{connack}{session_present}, 0, 'which is a new one');
}
client('other', $LONG, payload => 'a')->reset;
client('other', $LONG, payload => 'b')->reset;
end_session('other');
is(wills('other'), 'b', 'a will takes the place of the one before');
client('ends', $LONG)->reset;
client('ends', undef, expiry => 0)->reset;
gone('ends');
is(wills('ends'), '', 'called back by a connection with which the session ends');
client('now', $LONG, payload => 'a')->reset;
client('now', 0, payload => 'b')->reset;
wait_for_wills('now');
is(wills('now'), 'b', 'a will without delay is published when the connection ends');

# Taken over.
{
    my $old = client('taken', $LONG);
    my $new = client('taken', undef);
    is($old->ending, '0x8E', 'taken over');
    end_session('taken');
    is(wills('taken'), '', 'MQTT-3.1.3-9: taken over before the delay is over: no will');
    $old = client('retaken', $LONG);
    $new = client('retaken', undef, clean => 1);
    is($old->ending, '0x8E', 'taken over by a clean start');
    is(wills('retaken'), 'w', 'which ends the session: published before CONNACK');
}

# Given up, and asked for.
client('given', $LONG)->disconnect;
end_session('given');
is(wills('given'), '', 'MQTT-3.1.2-10: DISCONNECT 0x00 gives it up');
client('asked', $LONG)->disconnect(4);
end_session('asked');
is(wills('asked'), 'w', 'DISCONNECT 0x04 does not');
is(wills('asked2'), 'w', 'and it is published when its delay is over');

# Its rights are those of when it is published.
client('rights', $LONG)->reset;
$s->sql("SELECT fleetlog.unmount('acme/')");
$s->sql("SELECT fleetlog.mount('else/', 'telemetry')");
client('unmounted', 1)->reset;
$s->wait_for_log(qr/the will of .*unmounted.* was not published/);
$s->sql("SELECT fleetlog.mount('acme/', 'telemetry')");
end_session('unmounted');
is(wills('unmounted'), '', 'one that is refused is given up');
end_session('rights');
is(wills('rights'), 'w', 'one that waited is not');

# A large one, in many blocks of the store.
my $large = join '', map { chr(33 + int(rand 90)) } 1 .. 60000;
client('large', $LONG, payload => $large)->reset;

# Over a restart: who was away, and who was connected.
client('snap', $LONG)->reset;
my %again = (
    restart => sub { $s->node->restart; $s->wait_for_mqtt; },
    crash => sub { $s->kill9_and_start; },
    snapshot => sub {
        # One will is in the snapshot, the others are behind it.
        my $before = $s->sql("SELECT fleetlog.head('fleetlog.session_journal', 0)");
        my $pid = 1;
        my $c = client('many', undef);
        FleetlogTest::wait_until(sub {
                $c->publish_released('acme/d1/many', 'x', pid => $_) for $pid .. $pid + 99;
                $pid += 100;
                return $s->sql("SELECT fleetlog.head('fleetlog.session_journal', 0)") > $before;
            }, 'a snapshot');
        $c->reset;
    });
for my $how (qw(restart crash))
{
    $again{snapshot}->() if $how eq 'crash';
    client("$how-back", $LONG)->reset;
    client("$how-clean", $LONG)->reset;
    client("$how-given", $LONG)->disconnect;
    my @open = (client("$how-open", 1), client("$how-open-back", $LONG), client("$how-short", $LONG, expiry => 1));
    $s->sql("SELECT pg_switch_wal()");
    # What is acknowledged now is behind all of that.
    $s->device('d2')->publish_acked('acme/d2/t', 'durable');
    $again{$how}->();
    $_->close for @open;
    wait_for_wills("$how-open", "$how-short");
    is(wills("$how-open") . wills("$how-short"), 'ww', "$how: who was connected has his delay from the start on");
    client("$how-open-back", undef)->reset;
    client("$how-back", undef)->reset;
    end_session("$how-$_") for qw(back open-back clean given published open);
    is(join('|', map { wills("$how-$_") } qw(back open-back clean given published open)), '||w||w|w', "$how: each once, or called back");
}
end_session('large');
is(md5_hex(wills('large')), md5_hex($large), 'a large will comes out as it went in');
end_session('snap');
is(wills('snap'), 'w', 'a will comes from the snapshot');

# Many at once.
my $many = 300;
my @many = map { $s->raw } 1 .. $many;
for my $n (1 .. $many)
{
    $many[ $n - 1 ]->send_raw($many[ $n - 1 ]->connect_packet(client_id => "m$n", user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, $LONG ] ],
            will => { topic => "acme/d1/m$n", payload => 'w', qos => 1, properties => [ [ 24, 1 ] ] }));
}
is(scalar(grep { $_->expect('CONNACK')->{reason} == 0 } @many), $many, 'many clients with wills');
$_->reset for @many;
$s->wait_for("SELECT count(DISTINCT key) FROM telemetry WHERE key ~ '^acme/d1/m[0-9]+\$'", $many, 'all wills');
end_session("m$_") for 1 .. 20;
is($s->sql("SELECT count(*) FROM telemetry WHERE key ~ '^acme/d1/m[0-9]+\$'"), $many, 'many at once: each once');

# Whoever may not log in any more leaves no last word.
{
    my $a = $s->raw;
    $a->login(client_id => 'revoked', user => 'acme/d3', password => 'pw-d3', clean => 0, properties => [ [ 17, $LONG ] ],
        will => { topic => 'acme/d3/revoked', payload => 'w', qos => 1, properties => [ [ 24, 1 ] ] });
    $s->stop_points('keeper_turn');
    $s->wait_stopped_at('keeper_turn');
    $a->reset;
    $s->sql("SELECT fleetlog.revoke_device('acme/d3', 'lost')");
    $s->stop_points();
    $s->wait_for_log(qr/the will of .*revoked.* was not published: its credential was revoked/);
    is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d3/revoked'"), 0, 'no will of whose credential was revoked');
}

is($s->density_faults, '', 'offsets dense');
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
