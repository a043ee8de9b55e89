# C1 - C4: the reference devices of docs/examples, in C and in Python, with MQTT 5 and 3.1.1, against a server that plays a
# script: commands are carried out once, over reconnects, kill -9 and a memory that is full; expired ones are refused, also
# by clocks that are wrong; what is no command is passed over; pauses are those of full jitter.
use strict;
use warnings;
use Carp qw(confess);
use Test::More;
use JSON::PP ();
use Time::HiRes qw(time);
use FleetlogTest;
use FleetlogTest::Reference;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $peer = FleetlogTest::Reference::Peer->new;
my $python = IPC::Run::run([ '/usr/bin/python3', '-c', 'import paho.mqtt.client' ], '2>', \my $ignored);
FleetlogTest::Reference->build;

# The status and the detail of an answer, or its result.
sub told
{
    my ($text) = @_;
    my ($kind, $id, $json) = split / /, $text, 3;
    return $kind unless defined $json;
    my $said = JSON::PP->new->canonical->decode($json);
    return "$kind $said->{status} " . ($said->{detail} // JSON::PP->new->canonical->encode($said->{result}));
}

# A command and all that it is answered with.
sub outcome
{
    my ($answers, %command) = @_;
    my $id = $peer->command(%command);
    my @got = $peer->answers($answers);
    confess("answers of another command: @got") if grep { !/^\w+ $id\b/ } @got;
    return join ', ', map { told($_) } @got;
}

for my $kind (@FleetlogTest::Reference::KINDS)
{
  SKIP:
    {
        skip('python3-paho-mqtt is not installed', 1) if $kind eq 'python' && !$python;
        carried_out_once($kind, $_) for 5, 4;
        wrong_clocks($kind, $_) for 5, 4;
        full_memory($kind);
        pauses($kind);
        starts($kind);
    }
}

sub start
{
    my ($kind, $memory, %opt) = @_;
    return FleetlogTest::Reference->start(kind => $kind, port => $peer->port, memory => "$dir/$memory", %opt);
}

sub carried_out_once
{
    my ($kind, $version) = @_;
    my $what = "$kind, version $version";
    my $memory = "once-$kind-$version";
    my @start = ($kind, $memory, version => $version);
    my $d = start(@start, args => [ '--interval', 0.3 ]);
    $peer->accept;
    is($peer->client->{version}, $version, "$what: speaks the version");
    is("$peer->{clean} $peer->{filter}", '0 acme/cmd/d1/req/+', "$what: with a session, listens to its commands");

    my $id = $peer->command;
    is(join(', ', map { told($_) } $peer->answers(2)), 'ack, res succeeded {"pong":"d1"}', "$what: acknowledges, then answers");
    is(outcome(2, name => 'set-interval', payload => '{"seconds":2}'), 'ack, res succeeded {"seconds":2}', "$what: a command with a payload");
    like(outcome(2, name => 'set-interval', payload => '{"seconds":true}'), qr/^ack, res failed seconds must be/, "$what: a payload that is wrong");
    is(outcome(2, name => 'fly'), 'ack, res failed unknown command', "$what: a command that it does not know");

    # What is none is passed over, and nobody is answered.
    $peer->command(without => $_) for 'id', 'issued-at', 'expires-at';
    $peer->command(id => $_) for '', 'a/b', 'a b', '#', 'x' x 65, "a\xC3\xA9";
    $peer->command('expires-at' => $_) for '', 'tomorrow', '2026-13-01T00:00:00Z', '2026-01-01T00:00:00', '2026-01-01T00:00:00+99:00';
    $peer->command(raw => $_) for $version == 5 ? () : ('', '{', '[]', '7', '{"id":1}', 'x' x 5000);
    $peer->command(raw => $_, name => 'nothing') for $version == 5 ? () : ('{"id":"a","name":"other","issued_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z"}');
    is(outcome(2), 'ack, res succeeded {"pong":"d1"}', "$what: what is no command gets no answer");
    is(outcome(2, 'expires-at' => '2099-06-30T23:59:59.123456+05:30'), 'ack, res succeeded {"pong":"d1"}', "$what: a time with fraction and offset");

    # Again: as DUP, over a new connection, and after kill -9.
    my $again = sub {
        my ($how) = @_;
        $peer->command(id => $id, dup => 1);
        is(join(', ', map { told($_) } $peer->answers(2)), 'ack, res succeeded {"pong":"d1"}', "$what: a replay $how gets the old answer");
        $d->said("^$id.* refused: it was begun before|^$id refused");
    };
    $again->('with DUP');
    $peer->client->reset;
    $peer->accept(session_present => 1);
    $again->('over another connection');
    is($d->count("^$id ping:? \\{"), 1, "$what: and is done once");
    $d->kill9;
    $d = start(@start);
    $peer->accept(session_present => 1);
    $again->('after kill -9');
    is($d->count("^$id ping:? \\{"), 0, "$what: also then it is not done again");
    # It had its time: whether it has expired meanwhile is no question any more.
    is(outcome(2, id => $id, expires => -3600), 'ack, res succeeded {"pong":"d1"}', "$what: nor is it expired when it was done before");

    # One that a power cut has interrupted: nobody knows how far it came, and no answer is made up.
    $d->kill9;
    my $interrupted = FleetlogTest::Reference::Peer::new_id();
    remember($kind, "$dir/$memory", $interrupted);
    $d = start(@start);
    $peer->accept(session_present => 1);
    $peer->command(id => $interrupted);
    is(join(', ', map { told($_) } $peer->answers(1)), 'ack', "$what: one that was interrupted is acknowledged");
    is(outcome(2), 'ack, res succeeded {"pong":"d1"}', "$what: and has no result");
    $again->('with the memory of before');

    ok(scalar(grep { $_->{topic} eq 'acme/d1/status' && $_->{qos} == 0 } @{ $peer->{reports} }), "$what: it reports");
    is($d->stop, 0, "$what: ends in order");
    return;
}

# Puts a command that has begun and not ended into a memory; in C's, behind it a line that a power cut has torn.
sub remember
{
    my ($kind, $file, $id) = @_;

    if ($kind eq 'c')
    {
        PostgreSQL::Test::Utils::append_to_file($file, 'B ' . int(1000 * (time + 60)) . " $id\nB 17");
        return;
    }
    my $seen = JSON::PP::decode_json(PostgreSQL::Test::Utils::slurp_file($file));
    $seen->[1]{$id} = [ time + 60, undef ];
    unlink $file;
    PostgreSQL::Test::Utils::append_to_file($file, JSON::PP::encode_json($seen));
    return;
}

sub wrong_clocks
{
    my ($kind, $version) = @_;
    my $what = "$kind, version $version";
    my @start = (version => $version);

    my $d = start($kind, "right-$kind-$version", @start, args => [ '--tolerance', 30 ]);
    $peer->accept;
    is(outcome(1, issued => -120, expires => -60), 'res expired expired by the clock of the device', "$what: expired is expired");
    is(outcome(2, issued => -120, expires => -10), 'ack, res succeeded {"pong":"d1"}', "$what: within the tolerance it is not");
    is(outcome(2, issued => 20), 'ack, res succeeded {"pong":"d1"}', "$what: nor is it of the future");
    $d->stop;

    $d = start($kind, "fast-$kind-$version", @start, args => [ '--clock-offset', 3600 ]);
    $peer->accept;
    is(outcome(1, expires => 300), 'res expired expired by the clock of the device', "$what: a clock that is an hour fast: expired");
    is(outcome(2, expires => 7200), 'ack, res succeeded {"pong":"d1"}', "$what: with a longer life it is done");
    $d->stop;

    $d = start($kind, "slow-$kind-$version", @start, args => [ '--clock-offset', -3600 ]);
    $peer->accept;
    is(outcome(1, expires => 7200), 'res failed the clock of the device is behind: the command is of the future', "$what: a clock that is an hour slow cannot judge");
    is(outcome(2, issued => -3600), 'ack, res succeeded {"pong":"d1"}', "$what: what was issued an hour ago it can");
    $d->stop;
    return;
}

# 256 commands are remembered.  As long as none of them has expired there is no room; then there is, and what was forgotten is
# still not done again, even by a clock that was put back.
sub full_memory
{
    my ($kind) = @_;
    my ($d, $end, $done, $memory, @times, @ids);

    # They must be done before the first expires; a slow machine gets more time.
    for my $life (8, 40, 160)
    {
        $memory = "full-$kind-$life";
        $end = time + $life;
        @times = (issued => -3600, 'expires-at' => FleetlogTest::Reference::Peer::rfc3339($end));
        $d = start($kind, $memory, args => [ '--tolerance', 0 ]);
        $peer->accept;
        @ids = map { $peer->command(@times) } 1 .. 256;
        $done = my $over = 0;
        while ($over < 256) { $d->pump; my ($said) = $peer->answers(1); $over++ if $said =~ /^res/; $done++ if $said =~ /^res \S+ \{"status": ?"succeeded"/; }
        last if $done == 256;
        $d->kill9;
    }
    is($done, 256, "$kind: 256 commands are done");
    is(outcome(1), 'res failed no room to remember the command', "$kind: one more is not, because it could not be remembered") if time < $end;
    # What it says is read meanwhile, or it would wait for that.
    FleetlogTest::wait_until(sub { $d->pump; $peer->command; ($peer->answers(1))[0] =~ /^ack/ }, 'a command to have expired and be forgotten');
    like(($peer->answers(1))[0], qr/"succeeded"/, "$kind: when the first have expired there is room again");
    $d->kill9;
    $d = start($kind, $memory, args => [ '--tolerance', 0, '--clock-offset', -1800 ]);
    $peer->accept;
    my %got;
    for my $id (@ids)
    {
        # The oldest is the one that was forgotten; its id comes with the times that it had.
        $peer->command(id => $id, @times);
        my ($first) = $peer->answers(1);
        my $known = $first =~ /^ack/;
        $peer->answers(1) if $known;
        $got{ $known ? 'known' : told($first) }++;
    }
    is(join(', ', map { "$_: $got{$_}" } sort keys %got), 'known: 255, res expired expired by the clock of the device: 1',
        "$kind: with the clock put back the forgotten one is refused for its time, the others are known");
    is($d->count('ping:? \{'), 0, "$kind: and none is done again");
    $d->stop;
    return;
}

# The pauses of a device that finds nobody.  By the same seed they are the same; each window is used from 0 to its end.
sub pauses
{
    my ($kind) = @_;
    my $nobody = PostgreSQL::Test::Cluster::get_free_port();
    my @args = ('--base-pause', 0.001, '--cap', 0.008);
    my ($n, @rows) = (400);

    for my $seed (1, 1, 2)
    {
        my $d = FleetlogTest::Reference->start(kind => $kind, port => $nobody, memory => "$dir/pauses-$kind", args => [ @args, '--seed', $seed ]);
        $d->said('^pause', $n);
        $d->kill9;
        push @rows, [ ($d->pauses)[ 0 .. $n - 1 ] ];
    }
    my ($first, $second, $other) = @rows;
    is(join(' ', map { $_->[1] * 1000 } @$first[ 0 .. 4 ]), '1 2 4 8 8', "$kind: windows double up to the cap");
    is(join(' ', map { $_->[0] } @$first), join(' ', map { $_->[0] } @$second), "$kind: a seed gives the same pauses again");
    isnt(join(' ', map { $_->[0] } @$first), join(' ', map { $_->[0] } @$other), "$kind: another seed gives others");
    my @tenths = (0) x 10;
    $tenths[ $_->[0] >= $_->[1] ? 9 : int(10 * $_->[0] / $_->[1]) ]++ for @$first, @$other;
    # 80 are expected in each; less than 45 or more than 120 has a chance below one in a hundred thousand, and the seed is fixed.
    is(scalar(grep { $_ < 45 || $_ > 120 } @tenths), 0, "$kind: each tenth of the windows is used alike: @tenths");

    # What the server says counts.
    my @long = ('--base-pause', 0.01, '--cap', 0.02, '--long-pause', 0.4, '--seed', 3);
    for my $case ([ 5, 0x89, 0.04 ], [ 5, 0x87, 0.4 ], [ 4, 3, 0.04 ], [ 4, 5, 0.4 ])
    {
        my ($version, $code, $window) = @$case;
        my $d = start($kind, "refused-$kind", version => $version, args => \@long);
        $peer->accept(code => $code);
        $d->said('^pause');
        my ($pause) = $d->pauses;
        ok(abs($pause->[1] - $window) < 1e-9 && ($window < 0.4 || $pause->[0] >= 0.2), "$kind, version $version: CONNACK $code, window $pause->[1] s, pause $pause->[0] s");
        $d->kill9;
    }
    my $d = start($kind, "taken-$kind", args => \@long);
    $peer->accept;
    $d->said('^ready');
    $peer->client->send_hex('e0068e041f000178'); # with a reason string: Paho for Python overlooks the code in a packet that ends with it
    $d->said('^pause');
    cmp_ok(($d->pauses)[0][1], '==', 0.4, "$kind: who is taken over stays away");
    $d->kill9;
    $d = start($kind, "filter-$kind", args => \@long);
    $peer->accept(granted => 0x87);
    $d->said('^pause');
    cmp_ok(($d->pauses)[0][1], '==', 0.4, "$kind: and so does who may not listen to its commands");
    $d->kill9;
    return;
}

# Boot delay and phase of the reports: drawn at each start, over all of their windows, and kept.
sub starts
{
    my ($kind) = @_;
    my $draw = sub {
        my ($seed) = @_;
        my $d = FleetlogTest::Reference->start(kind => $kind, port => $peer->port, memory => "$dir/starts-$kind", args => [ '--boot', 1000, '--interval', 10, '--seed', $seed ]);
        $d->said('^boot: ');
        my ($boot, $phase) = $d->{out} =~ /^boot: ([0-9.]+) s of at most 1000.000000 s, first report ([0-9.]+) s later, every 10.000000 s$/m;
        $d->kill9;
        return "$boot $phase";
    };
    my @drawn = map { [ split / /, $draw->($_) ] } 1 .. 16;
    for my $case ([ 'boot delays', 1000, map { $_->[0] } @drawn ], [ 'phases of reports', 10, map { $_->[1] } @drawn ])
    {
        my ($what, $window, @values) = @$case;
        # That one third has none of 16 has a chance of one in 200, and the seeds are fixed.
        my %thirds = map { (int(3 * $_ / $window) => 1) } @values;
        is(join(' ', sort keys %thirds), '0 1 2', "$kind: $what use all of their window: @values");
        is(scalar(grep { $_ < 0 || $_ > $window } @values), 0, "$kind: and no more");
    }
    is($draw->(1), join(' ', @{ $drawn[0] }), "$kind: a seed gives the same start again");

    # They are kept: nobody comes before his delay, nor reports before his phase, then every interval.
    my $d = start($kind, "phase-$kind", args => [ '--boot', 1, '--interval', 0.8, '--seed', 5 ]);
    $d->said('^boot: ');
    my $begin = time;
    my ($boot, $phase) = $d->{out} =~ /^boot: ([0-9.]+) s .* report ([0-9.]+) s/m;
    $peer->accept;
    cmp_ok(time - $begin, '>=', $boot - 0.1, "$kind: it connects after its delay of $boot s");
    $peer->{reports} = [];
    FleetlogTest::wait_until(sub { $peer->command; $peer->answers(2); @{ $peer->{reports} } }, 'a report');
    cmp_ok(time - $begin, '>=', $boot + $phase - 0.1, "$kind: and reports at its phase, $phase s later");
    $d->stop;
    return;
}

done_testing();
