# M4, M7: QoS 2 from device to log, and from the log to a subscriber with a session, is exactly once across kill -9 of the
# server at the points that matter and at random: of all messages that were sent, each is stored once and reaches each
# subscriber once, in order, whatever was answered before the crash.
use strict;
use warnings;
use Test::More;
use IO::Select;
use Time::HiRes qw(time);
use FleetlogTest;

# A round is a crash at every point: one is enough for every day, and whoever asks for more than that gets as many.
my $told = $ENV{FLEETLOG_ROUNDS} || 3;
my $rounds = $told > 3 ? $told : 1;
my $publishers = $ENV{FLEETLOG_LONG} ? 50 : 8;
my @points = qw(journal_after_write door_after_write door_after_commit door_before_flush door_before_ack appender_after_write
  appender_after_commit flusher_before_flush snapshot_before_commit snapshot_after_commit);
push @points, 'random' for 1 .. 3;

my $s = FleetlogTest->new('exact', conf => "fleetlog.session_journal_size = 8kB\nwal_consistency_checking = 'all'\n");
$s->fleet(devices => $publishers, shards => 2);

# ---- a publisher: what its client library would keep over a crash of the server ----

my @all;
my @listeners;
for my $n (1 .. $publishers)
{
    # state: messages by packet identifier: sent, or released
    push @all, { id => "d$n", next => 1, pid => 0, flow => {}, order => [], done => 0 };
}

sub connect_one
{
    my ($p) = @_;
    my $c = FleetlogTest::Mqtt->open($s->port, version => 5);
    my $ack = $c->login(client_id => $p->{id}, user => "acme/$p->{id}", password => "pw-$p->{id}", clean => 0, properties => [ [ 17, 3000 ] ]);

    die "$p->{id} was refused" unless ref $ack && $ack->{reason} == 0;
    $p->{lost}++ if %{ $p->{flow} } && !$ack->{session_present};
    $p->{c} = $c;
    # In the order of their first sending: messages again, releases again (MQTT-4.4.0-1).
    for my $pid (@{ $p->{order} })
    {
        my $f = $p->{flow}{$pid};
        if ($f->{released}) { $c->pubrel($pid); }
        else { $c->publish("acme/$p->{id}/t", $f->{payload}, qos => 2, pid => $pid, dup => 1); }
    }
    return;
}

sub send_more
{
    my ($p) = @_;
    while (keys %{ $p->{flow} } < 5)
    {
        # Small identifiers, so that they are used again all the time.
        do { $p->{pid} = $p->{pid} % 12 + 1 } while $p->{flow}{ $p->{pid} };
        my $payload = "$p->{id}-" . $p->{next}++;
        $p->{flow}{ $p->{pid} } = { payload => $payload };
        push @{ $p->{order} }, $p->{pid};
        $p->{c}->publish("acme/$p->{id}/t", $payload, qos => 2, pid => $p->{pid});
    }
    return;
}

sub take
{
    my ($p) = @_;
    my $n = 0;
    $p->{c}->fill if IO::Select->new($p->{c}{socket})->can_read(0);
    while (ref(my $m = $p->{c}->read_packet(0)))
    {
        my $f = $p->{flow}{ $m->{pid} // 0 };
        $n++;
        if ($m->{name} eq 'PUBREC') { $f->{released} = 1 if $f; $p->{c}->pubrel($m->{pid}); }
        elsif ($m->{name} eq 'PUBCOMP' && $f)
        {
            delete $p->{flow}{ $m->{pid} };
            @{ $p->{order} } = grep { $_ != $m->{pid} } @{ $p->{order} };
            $p->{done}++;
        }
        elsif ($m->{name} ne 'PUBCOMP') { $p->{odd}++; note("$p->{id}: $m->{name} reason " . ($m->{reason} // '-')); }
    }
    return $n;
}

sub pump
{
    my ($seconds, $until) = @_;
    my $end = time + $seconds;
    while (time < $end && !($until && $until->()))
    {
        my $n = 0;
        for my $p (@all) { $n += take($p); send_more($p); }
        $n += hear($_) for @listeners;
        select(undef, undef, undef, 0.002) unless $n;
    }
    return;
}
# ---- a subscriber: what its client library would keep ----

@listeners = map { { id => "d$_", held => {}, got => [], answers => [] } } 1 .. ($ENV{FLEETLOG_LONG} ? 20 : 6);

sub listen_one
{
    my ($q) = @_;
    my $c = FleetlogTest::Mqtt->open($s->port, version => 5);
    # Few may be under way, so that identifiers and the window are used again all the time.
    my $ack = $c->login(client_id => "listener-$q->{id}", user => "acme/$q->{id}", password => "pw-$q->{id}", clean => 0, properties => [ [ 17, 3000 ], [ 33, 7 ] ]);

    die "listener $q->{id} was refused" unless ref $ack && $ack->{reason} == 0;
    $q->{c} = $c;
    $q->{answers} = [];
    if (!$q->{subscribed}) { $c->subscribe([ [ "acme/$q->{id}/t", 2 ] ]); $q->{subscribed} = 1; }
    elsif (!$ack->{session_present}) { $q->{lost}++; }
    return;
}

sub hear
{
    my ($q) = @_;
    my $n = 0;
    # Answers are late now and then, so that a crash finds deliveries at every stage.
    while (@{ $q->{answers} } && rand() < 0.7)
    {
        my ($what, $pid) = @{ shift @{ $q->{answers} } };
        $n++;
        if ($what eq 'PUBLISH') { $q->{c}->pubrec($pid); next; }
        delete $q->{held}{$pid};
        $q->{c}->pubcomp($pid);
    }
    $q->{c}->fill if IO::Select->new($q->{c}{socket})->can_read(0);
    while (ref(my $m = $q->{c}->read_packet(0)))
    {
        my $pid = $m->{pid};
        $n++;
        if ($m->{name} eq 'PUBLISH' && $m->{qos} == 2)
        {
            # An identifier that is held means the message that came with it, whatever this one says.
            $q->{swallowed}++ if defined $q->{held}{$pid} && $q->{held}{$pid} ne $m->{payload};
            push @{ $q->{got} }, $m->{payload} if !defined $q->{held}{$pid};
            $q->{held}{$pid} = $m->{payload};
        }
        elsif ($m->{name} ne 'PUBREL') { $q->{odd}++; note("listener $q->{id}: $m->{name} QoS " . ($m->{qos} // '-') . ' reason ' . ($m->{reason} // '-')); next; }
        push @{ $q->{answers} }, [ $m->{name}, $pid ];
    }
    return $n;
}

sub done { my $n = 0; $n += $_->{done} for @all; return $n; }
sub cut_off { $_->{c}->close for @all, @listeners; return; }

# ---- rounds ----

listen_one($_) for @listeners;
connect_one($_) for @all;
for my $round (1 .. $rounds)
{
    for my $point (@points)
    {
        my $label = "round $round, $point";
        my $before = done();
        pump($FleetlogTest::TIMEOUT, sub { done() >= $before + 3 * $publishers });
        cmp_ok(done(), '>', $before, "$label: messages complete");
        if ($point eq 'random') { pump(rand 0.3); }
        else
        {
            $s->stop_points($point);
            my $looked = 0;
            my $probe = "SELECT count(*) FROM fleetlog.stat_worker WHERE stop_point = '$point'";
            pump($FleetlogTest::TIMEOUT, sub { (++$looked % 10) == 0 && $s->sql($probe) > 0 });
            cmp_ok($s->sql($probe), '>', 0, "$label: a process stands there");
            pump(0.1);
        }
        $s->kill9;
        cut_off();
        $s->set_conf();
        $s->start_after_crash;
        connect_one($_) for @all;
        listen_one($_) for @listeners;
    }
}

# Everything comes to an end, however long it takes as long as something comes.
sub pump_out
{
    my ($ended) = @_;
    my $end = time + $FleetlogTest::TIMEOUT;
    while (time < $end && !$ended->())
    {
        my $n = 0;
        $n += take($_) for @all;
        $n += hear($_) for @listeners;
        if ($n) { $end = time + $FleetlogTest::TIMEOUT; }
        else { select(undef, undef, undef, 0.005); }
    }
    return;
}
pump_out(sub { !grep { keys %{ $_->{flow} } } @all });
is(scalar(grep { keys %{ $_->{flow} } } @all), 0, 'every message came to its end');
is(scalar(grep { $_->{odd} } @all), 0, 'nobody was sent anything else');
is(scalar(grep { $_->{lost} } @all), 0, 'every session was there after every crash');

my $sent = 0;
$sent += $_->{next} - 1 for @all;
is($s->sql("SELECT count(*) FROM (SELECT payload FROM telemetry GROUP BY payload HAVING count(*) > 1) s"), 0, 'O70: none of them is stored twice');
is($s->sql('SELECT count(DISTINCT payload) FROM telemetry'), $sent, "O70: all $sent messages are stored");
is($s->sql('SELECT count(*) FROM telemetry'), $sent, 'and nothing else');

my %wanted = map { $_->{id} => $_->{next} - 1 } @all;
pump_out(sub { !grep { @{ $_->{got} } < $wanted{ $_->{id} } || keys %{ $_->{held} } } @listeners });
for my $q (@listeners)
{
    my $stored = $s->sql("SELECT string_agg(fleetlog.text(payload), ' ' ORDER BY log_offset) FROM telemetry WHERE key = 'acme/$q->{id}/t'");
    is(join(' ', @{ $q->{got} }), $stored, "O70: the subscriber of $q->{id} got each once, in order");
}
is(scalar(grep { $_->{swallowed} } @listeners), 0, 'no identifier that a subscriber held was used for something new');
is(scalar(grep { $_->{odd} } @listeners), 0, 'no subscriber was sent anything else');
is(scalar(grep { $_->{lost} } @listeners), 0, 'the session of every subscriber was there after every crash');
is($s->density_faults, '', 'offsets dense, time in order');
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
