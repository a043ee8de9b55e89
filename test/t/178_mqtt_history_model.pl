# M11, M7: overlapping subscriptions of one session that begin at random places, begin anew, are given up and resumed over
# reconnects and kill -9, while others publish.  Whatever the order of all that: each subscription gets every record of its topics from
# its beginning on, in the order of the shard, each once (after a reconnect perhaps once more).  Every beginning has a
# subscription identifier of its own, so that each delivery says for which ones it is.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('model', conf => "fleetlog.workers = 2\n");
$s->fleet(devices => 1, shards => 2);
my $rounds = $ENV{FLEETLOG_LONG} ? 40 : 4; # every fourth is a mixed one
my $seed = $ENV{FLEETLOG_SEED} // 20261202;
# Below acme/d1/<round>/; what a filter selects there.
my @topics = qw(m/a m/b m/c m/d);
my %filters = ('m/a' => qr{/a$}, 'm/b' => qr{/b$}, 'm/+' => qr{}, '+/c' => qr{/c$}, '#' => qr{});
my $connection = 0;
my $mixed; # subscriptions and records at QoS 0 as well, without reconnects
my ($c, $name, $space, $publisher, @unacked, %beginnings, %current, $id, @log, %wanted);

sub note_down { push @log, "@_"; shift @log if @log > 40; return; }

sub connect_reader
{
    $connection++;
    $c = $s->raw;
    my $ack = $c->login(client_id => $name, user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, 300 ], [ 33, 1 + int rand 12 ] ]);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    return $ack->{session_present};
}

sub request
{
    my ($answer, $packet) = @_;
    my @early;

    $c->send_raw($packet);
    while (1)
    {
        my $p = $c->read_packet;
        die "no $answer" unless ref $p;
        if ($p->{name} eq $answer) { unshift @{ $c->{pushed} }, @early; return $p; }
        push @early, $p;
    }
}

# From the next records on, or from what `from` says; start: the first offset of each shard that it wants.
sub subscribe
{
    my ($filter, $start, $from) = @_;
    my @properties = ([ 11, ++$id ], [ 38, 'fl-position', 'on' ], defined $from ? [ 38, 'fl-from', $from ] : ());
    my $body = pack('n', $c->next_pid) . FleetlogTest::Mqtt::properties(\@properties) . FleetlogTest::Mqtt::str("$space/$filter") . chr($mixed ? int rand 2 : 1);

    note_down("subscribe $id $filter", $from // 'next', "@$start");
    my $ack = request('SUBACK', FleetlogTest::Mqtt::packet(0x82, $body));
    is("@{ $ack->{reasons} }", '1', "subscription $id to $filter") unless $ack->{reasons}[0] <= 1;
    $beginnings{$id} = { filter => $filter, start => $start, got => [ [], [] ] };
    $current{$filter} = $id;
    return;
}

sub unsubscribe
{
    my ($filter) = @_;

    note_down("unsubscribe $current{$filter} $filter");
    request('UNSUBACK', FleetlogTest::Mqtt::packet(0xA2, pack('n', $c->next_pid) . FleetlogTest::Mqtt::properties([]) . FleetlogTest::Mqtt::str("$space/$filter")));
    delete $current{$filter};
    return;
}

sub told { my ($p, $what) = @_; my ($found) = grep { $_->[0] == 38 && $_->[1] eq $what } @{ $p->{properties} }; return $found ? $found->[2] : undef; }

# Takes one delivery, if there is one within so many seconds.
sub take
{
    my ($seconds) = @_;
    my $p = $c->read_packet($seconds);

    return 0 unless defined $p;
    die 'the connection was closed' unless ref $p;
    die "unexpected $p->{name}" unless $p->{name} eq 'PUBLISH';
    push @unacked, $p->{pid} if $p->{qos};
    my ($shard, $offset) = (told($p, 'fl-shard'), told($p, 'fl-offset'));
    for my $for (map { $_->[1] } grep { $_->[0] == 11 } @{ $p->{properties} })
    {
        my $b = $beginnings{$for} // die "delivery for $for, which nobody has asked for";
        push @{ $b->{got}[$shard] }, [ $offset, $p->{dup}, $connection, $p->{qos} ];
    }
    return 1;
}

sub acknowledge { my ($n) = @_; $c->puback(shift @unacked) while @unacked && $n-- > 0; return; }
sub tails { return [ split / /, $s->sql("SELECT fleetlog.tail('telemetry', 0) || ' ' || fleetlog.tail('telemetry', 1)") ]; }

sub seek_somewhere
{
    my ($filter) = @_;
    my $tails = tails();
    my $how = int rand 4;

    return subscribe($filter, [ 0, 0 ], 'beginning') if $how == 0;
    if ($how == 1)
    {
        my ($at, @first) = split / /, $s->sql("WITH r AS (SELECT ts FROM telemetry ORDER BY random() LIMIT 1) SELECT to_char(ts AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') || ' ' || "
              . join(" || ' ' || ", map { "coalesce((SELECT min(log_offset) FROM telemetry t WHERE shard = $_ AND t.ts >= r.ts), $tails->[$_])" } 0, 1) . ' FROM r');
        return subscribe($filter, \@first, $at);
    }
    my @start = map { int rand($tails->[$_] + 1) } 0, 1;
    return subscribe($filter, [ 0, $start[1] ], "1:$start[1]\@0") if $how == 2;
    return subscribe($filter, \@start, "0:$start[0],1:$start[1]");
}

sub connect_publisher
{
    $publisher = $s->raw;
    $publisher->login(client_id => 'publisher', user => 'acme/d1', password => 'pw-d1');
    return;
}

sub crash
{
    note_down('crash');
    $s->kill9_and_start;
    $s->wait_for_mqtt;
    $_->close for $c, $publisher;
    @unacked = ();
    connect_publisher();
    is(connect_reader(), 1, 'the session is there after a crash') or die;
    return;
}

sub step
{
    my ($can_reconnect) = @_;
    my $what = rand 100;
    my $filter = (sort keys %filters)[rand keys %filters];

    if ($what < 30)
    {
        for (1 .. 1 + rand 20)
        {
            my $topic = "$space/$topics[rand @topics]";
            # What is acknowledged lies behind it in the same shard: both are there then.
            $publisher->publish($topic, 'x') if $mixed && rand() < 0.5;
            $publisher->publish_acked($topic, 'x');
        }
    }
    elsif ($what < 60) { take(0.01) or last for 1 .. 1 + rand 60; acknowledge(rand 40); }
    elsif ($what < 75) { acknowledge(1000); }
    elsif ($what < 85) { seek_somewhere($filter); }
    elsif ($what < 90) { subscribe($filter, tails()) unless $current{$filter}; }
    elsif ($what < 95) { unsubscribe($filter) if $current{$filter}; }
    elsif ($can_reconnect)
    {
        return crash() if rand() < 0.1;
        note_down('reconnect');
        # What has been acknowledged is known to the server; what is on the way to us is read, or comes again.
        $c->send_raw(FleetlogTest::Mqtt::packet(0xC0, ''));
        while (1)
        {
            my $p = $c->read_packet;
            die 'no answer' unless ref $p;
            last if $p->{name} eq 'PINGRESP';
            unshift @{ $c->{pushed} }, $p;
            take(0);
        }
        $c->reset;
        @unacked = ();
        $s->wait_for("SELECT connected FROM fleetlog.stat_session WHERE client_id = '$name'", 'f', 'it to have gone');
        is(connect_reader(), 1, 'the session is there') or die;
    }
    return;
}

# How many of the records that it is to get a beginning has got, in order; what is wrong, or nothing.  After a reconnect
# it may go back, but passes over nothing.  What comes again as DUP comes with the identifiers of all filters that select
# its topic, whichever it had been sent for.
sub compare
{
    my ($b, $shard) = @_;
    my @want = grep { $_ >= $b->{start}[$shard] } @{ $wanted{ $b->{filter} }[$shard] };
    my ($n, $on) = (0, 0);

    for my $got (@{ $b->{got}[$shard] })
    {
        my ($offset, $dup, $connection) = @$got;
        if ($connection != $on && !$dup)
        {
            $on = $connection;
            $n-- while $n > 0 && $offset < ($want[$n] // $offset + 1);
        }
        if ($n < @want && $offset == $want[$n]) { $n++; }
        elsif (!$dup) { return ($n, scalar @want, "after $n of " . @want . " got $offset instead of " . ($want[$n] // 'nothing')); }
    }
    return ($n, scalar @want);
}

# The same where QoS 0 does not wait for QoS 1: each of the two is in order, and nothing comes twice.
sub compare_mixed
{
    my ($b, $shard) = @_;
    my %left = map { $_ => 1 } grep { $_ >= $b->{start}[$shard] } @{ $wanted{ $b->{filter} }[$shard] };
    my $all = keys %left;
    my @last = (-1, -1);

    for my $got (@{ $b->{got}[$shard] })
    {
        my ($offset, $qos) = @$got[ 0, 3 ];
        return (0, $all, "got $offset, which it was not to get, or had") unless delete $left{$offset};
        return (0, $all, "got $offset behind $last[$qos]") if $offset < $last[$qos];
        $last[$qos] = $offset;
    }
    return ($all - keys %left, $all);
}
sub compare_either { return $mixed ? compare_mixed(@_) : compare(@_); }

sub is_complete
{
    for my $for (values %current)
    {
        for my $shard (0, 1)
        {
            my ($n, $all, $bad) = compare_either($beginnings{$for}, $shard);
            return 1 if $bad;
            return 0 if $n < $all;
        }
    }
    return 1;
}

sub check
{
    my $bad = 0;

    for my $for (sort { $a <=> $b } keys %beginnings)
    {
        my $b = $beginnings{$for};
        for my $shard (0, 1)
        {
            my ($n, $all, $wrong) = compare_either($b, $shard);
            $wrong //= "$n of $all" if ($current{ $b->{filter} } // 0) == $for && $n < $all;
            next unless defined $wrong;
            diag("subscription $for to $b->{filter} from @{ $b->{start} }, shard $shard: $wrong");
            $bad++;
        }
    }
    diag(join "\n", @log) if $bad;
    return $bad;
}

for my $round (1 .. $rounds)
{
    srand $seed + $round;
    ($name, $space, $id) = ("reader-$round", "acme/d1/$round", 0);
    (@unacked, %beginnings, %current, @log, %wanted) = ();
    connect_publisher();
    $publisher->publish_acked("$space/$topics[rand @topics]", 'x') for 1 .. 50;
    connect_reader();
    $mixed = $round % 4 == 0;
    step($_ > 10 && !$mixed) for 1 .. 200;
    for (split /\n/, $s->sql("SELECT shard || ' ' || log_offset || ' ' || key FROM telemetry WHERE key LIKE '$space/%' ORDER BY shard, log_offset"))
    {
        my ($shard, $offset, $key) = split / /;
        for my $filter (keys %filters) { push @{ $wanted{$filter}[$shard] }, $offset if $key =~ $filters{$filter}; }
    }
    my $end = time + $FleetlogTest::TIMEOUT;
    while (time < $end) { my $more = take(0.2); acknowledge(1000); last if !$more && is_complete(); }
    acknowledge(1000);
    # Nothing may come behind it.
    1 while take(0.3);
    is(check(), 0, "round $round: every subscription got its records once and in order, " . keys(%beginnings) . ' beginnings');
    $c->disconnect;
    $publisher->disconnect;
}

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
