# M1, M6, V2: crowds.  Two thousand connections that come at once all get through, one client identifier that fifty
# connections claim at once has one of them in the end and loses no message, what a stopped subscriber does not get is
# counted to the last message, and none of it leaves memory behind.
use strict;
use warnings;
use Test::More;
use Errno qw(EINPROGRESS);
use IO::Select;
use Socket qw(PF_INET SOCK_STREAM IPPROTO_TCP inet_aton pack_sockaddr_in);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use Time::HiRes qw(time);
use FleetlogTest;

use constant TCP_INFO => 11;

my $s = FleetlogTest->new('crowds', conf => "fleetlog.workers = 2\nfleetlog.log_connections = off\n");
$s->fleet(devices => 3);
my @doors = split /\n/, $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'front_door'");

sub connections { return $s->sql('SELECT count(*) FROM fleetlog.stat_connection'); }
sub all_gone { $s->wait_for('SELECT count(*) = 0 FROM fleetlog.stat_connection', 't', 'all connections to be gone'); return; }

# ---- 2,000 at once ----

# The front doors stand still meanwhile, so that the kernel has to keep all of them: how fast anybody is does not matter.
# A connection whose SYN was lost, or whose place in the queue was taken, has sent something again.
sub connect_at_once
{
    my ($n) = @_;
    my $to = pack_sockaddr_in($s->port, inet_aton('127.0.0.1'));
    my (@sockets, $again);

    for (1 .. $n)
    {
        socket my $socket, PF_INET, SOCK_STREAM, 0 or die "socket: $!";
        fcntl $socket, F_SETFL, O_NONBLOCK | fcntl $socket, F_GETFL, 0;
        connect $socket, $to or $! == EINPROGRESS or die "connect: $!";
        push @sockets, $socket;
    }
    for my $socket (@sockets)
    {
        IO::Select->new($socket)->can_write($PostgreSQL::Test::Utils::timeout_default) or die 'no connection';
        $again += unpack 'x100 L', getsockopt $socket, IPPROTO_TCP, TCP_INFO;
    }
    return ($again, @sockets);
}

my $crowd = 2000;
SKIP:
{
    my $queue = PostgreSQL::Test::Utils::slurp_file('/proc/sys/net/core/somaxconn');
    my $limit = $crowd + 200;
    skip "net.core.somaxconn is $queue", 2 if $queue < $crowd;
    skip 'the limit of open files is too low', 2 if system('prlimit', '--pid', $$, "--nofile=$limit:") != 0;

    kill 'STOP', @doors;
    my ($again, @sockets) = connect_at_once($crowd);
    kill 'CONT', @doors;
    is($again, 0, "$crowd connections at once, while nobody accepts: no packet had to be sent twice");
    my @clients = map { bless { socket => $_, in => '', version => 5, pid => 0, closed => 0 }, 'FleetlogTest::Mqtt' } @sockets;
    $clients[$_]->send_raw($clients[$_]->connect_packet(client_id => "c$_", user => 'acme/d1', password => 'pw-d1')) for 0 .. $#clients;
    is(scalar(grep { my $p = $_->read_packet; ref $p && $p->{name} eq 'CONNACK' && $p->{reason} == 0 } @clients), $crowd, 'all of them are let in');
    $_->close for @clients;
}
all_gone();

# ---- one client identifier, fifty connections ----

# One that another has overtaken before it was let in cannot be told 0x8E, which is no reason of a CONNACK.
sub refusal
{
    my ($p) = @_;
    my ($why) = map { $_->[1] } grep { $_->[0] == 31 } @{ $p->{properties} // [] };
    return $p->{reason} == 0x80 && ($why // '') eq 'another connection has taken over' ? 'DISCONNECT 0x8E' : sprintf 'CONNACK 0x%02X (%s)', $p->{reason}, $why // '-';
}

# Reads until what is wanted comes or the connection ends; messages are kept.
sub take
{
    my ($client, $wanted) = @_;
    while (1)
    {
        my $p = $client->read_packet;
        if (!ref $p) { $client->{end} //= $p // 'nothing'; return; }
        if ($p->{name} eq 'PUBLISH') { push @{ $client->{kept} }, $p; }
        elsif ($p->{reason}) { $client->{end} = $p->{name} eq 'CONNACK' ? refusal($p) : sprintf '%s 0x%02X', $p->{name}, $p->{reason}; }
        return if $wanted->($p);
    }
}

# Each is let in and told 0x8E (3.1.1: closed), or is told so at once; the last one stays.
sub takeover_storm
{
    my ($version, $first, $count, %opt) = @_;
    my @clients = map { $s->raw(version => $version) } 1 .. 50;
    my (@stay, %ends);

    $_->send_raw($_->connect_packet(client_id => 'same', user => 'acme/d1', password => 'pw-d1', clean => 0, keep_alive => 600, %opt)) for @clients;
    # What comes meanwhile is for whoever is there in the end: nobody acknowledges anything.
    $s->sql("SELECT fleetlog.append('telemetry', 'acme/d1/t', convert_to(n::text, 'UTF8')) FROM generate_series($first, $first + $count - 1) n");
    # First until each has had its answer: after that nobody comes any more.
    for my $client (@clients) { take($client, sub { ref $_[0] && $_[0]{name} eq 'CONNACK' }); }
    $s->wait_for(q(SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'same'), '1', 'one to be left');
    for my $client (@clients)
    {
        $client->send_hex('c000');
        take($client, sub { ref $_[0] && $_[0]{name} eq 'PINGRESP' }) unless $client->{end};
        push @stay, $client unless $client->{end};
        $ends{ $client->{end} // 'stays' }++;
    }
    return (\@stay, \%ends);
}

my $count = 30;
my $next = 1;
for my $version (5, 4, 5)
{
    my %opt = $version == 5 ? (properties => [ [ 17, 300 ] ]) : ();
    if ($next == 1)
    {
        my $c = $s->device('d1', client_id => 'same', clean => 0, %opt);
        $c->subscribe([ [ 'acme/d1/t', 1 ] ]);
        $c->disconnect(0);
    }
    my ($stay, $ends) = takeover_storm($version, $next, $count, %opt);
    my $told = $version == 5 ? 'DISCONNECT 0x8E' : 'closed';
    is(scalar @$stay, 1, "MQTT $version: of 50 connections with one client identifier exactly one stays");
    is(join(', ', map { "$_: $ends->{$_}" } sort keys %$ends), join(', ', sort "$told: 49", 'stays: 1'), '... each other was told');
    BAIL_OUT('nobody stayed') unless @$stay;
    my ($c) = @$stay;
    my @got = @{ $c->{kept} // [] };
    $c->puback($_->{pid}) for @got;
    push @got, $c->messages($count - @got);
    is(join(' ', map { $_->{payload} } @got), join(' ', $next .. $next + $count - 1), '... and it has every message, in order, once');
    $c->ping;
    is($s->sql(q(SELECT count(*) FROM fleetlog.stat_session WHERE client_id = 'same')), '1', '... of the one session');
    $next += $count;
    $c->disconnect(0);
    all_gone();
}

# ---- a subscriber that stops reading ----

# As many publishers as make sure that some sit behind the other front door; messages with what they are counted by.
{
    my $sent = 3000;
    my $stopped = $s->device('d2', client_id => 'stopped', keep_alive => 600);
    my $quick = $s->device('d2', client_id => 'quick', keep_alive => 600);
    $_->subscribe([ 'acme/d2/#' ]) for $stopped, $quick;
    my $before = $s->sql('SELECT sum(dropped_qos0) FROM fleetlog.stat_worker');
    my $pad = 'x' x 4000;
    # In steps that the other one follows, so that it drops nothing.
    for (my $n = 0; $n < $sent; $n += 100)
    {
        $s->sql("SELECT fleetlog.append('telemetry', 'acme/d2/t', convert_to(n || ' $pad', 'UTF8')) FROM generate_series($n + 1, $n + 100) n");
        is(scalar $quick->messages(100), 100, 'the other subscriber gets each step whole') if $n == 0;
        $quick->messages(100) if $n > 0;
    }
    is($s->sql(q(SELECT dropped FROM fleetlog.stat_connection WHERE client_id = 'quick')), '0', 'who reads loses nothing');
    # Now it reads: what its queue held, and then what is new.
    my @got;
    my $shown = sub { return $s->sql(q(SELECT dropped FROM fleetlog.stat_connection WHERE client_id = 'stopped')); };
    FleetlogTest::wait_until(sub { push @got, $stopped->messages($sent, 0.2); return @got + $shown->() >= $sent }, 'each message to have come or to be counted');
    $s->sql(q(SELECT fleetlog.append('telemetry', 'acme/d2/t', 'end')));
    do { push @got, $stopped->messages(1) } until $stopped->{closed} || $got[-1]{payload} eq 'end';
    cmp_ok(scalar @got, '<', $sent, 'a subscriber that does not read has lost some (' . scalar(@got) . " of $sent came)");
    my $dropped = $sent + 1 - @got;
    is($shown->(), $dropped, '... each is counted: sent = received + dropped');
    is($s->sql('SELECT sum(dropped_qos0) FROM fleetlog.stat_worker') - $before, $dropped, '... in the sum of the front doors, too');
    my @numbers = map { $_->{payload} =~ /^(\d+)/ } @got;
    is(join(',', @numbers), join(',', sort { $a <=> $b } @numbers), '... and what came is in order');
    $_->disconnect(0) for $stopped, $quick;
    all_gone();
}

# ---- and nothing is left behind ----

# What the memory contexts of the front doors use; what was used once and is free again is not counted.
sub used
{
    my $from = -s $s->node->logfile;
    my %used;

    $s->sql("SELECT pg_log_backend_memory_contexts($_)") for @doors;
    FleetlogTest::wait_until(
        sub {
            my $text = PostgreSQL::Test::Utils::slurp_file($s->node->logfile, $from);
            $used{$1} = $2 while $text =~ /\[(\d+)\].*Grand total: .* (\d+) used/g;
            return !grep { !exists $used{$_} } @doors;
        },
        'the front doors to tell what memory they use');
    my $sum = 0;
    $sum += $used{$_} for @doors;
    return $sum;
}

sub small_storms
{
    my ($times) = @_;
    for my $n (1 .. $times)
    {
        # Forty identifiers, ten of them claimed twice: sessions that are kept, subscriptions, wills, takeovers.
        my @clients = map { $s->raw } 1 .. 50;
        for my $i (0 .. 49)
        {
            my $c = $clients[$i];
            $c->send_raw($c->connect_packet(client_id => 'small' . $i % 40, user => 'acme/d3', password => 'pw-d3', clean => $i % 2, properties => [ [ 17, $i % 2 ? 0 : 300 ] ],
                    will => { topic => 'acme/d3/will', payload => 'w', qos => 1 }));
        }
        $s->wait_for(q(SELECT count(*) FROM fleetlog.stat_connection WHERE client_id LIKE 'small%'), '40', 'one for each identifier');
        for my $c (@clients) { $c->send_raw(FleetlogTest::Mqtt::packet(0x82, pack('n', 1) . "\0" . FleetlogTest::Mqtt::str('acme/d3/+/x') . "\1")); }
        $_->close for @clients;
        all_gone();
    }
    return;
}
small_storms(3);
my $before = used();
small_storms(30);
my $more = used() - $before;
cmp_ok($more, '<', 64 * 1024, "fifteen hundred connections more leave nothing in the memory of the front doors ($more bytes)");

is($s->sql("SELECT sum(connections) FROM fleetlog.stat_worker WHERE kind = 'front_door'"), '0', 'no connection is counted that is none');
is($s->density_faults, '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
