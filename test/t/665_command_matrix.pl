# C1 - C4: what becomes of a command, by what its device is like and by when its time to live passes.  The table is that of
# docs/commands.md.  Nothing that has expired is ever delivered: behind each such command the device gets the next one.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Reference;

# By column: state, then every event.  "-": that cannot be.
my $pending = 'expired: pending, expired';
my $queued = 'expired: pending, sent, expired';
my $good = 'succeeded: pending, sent, delivered, acknowledged, succeeded';
my $silent = 'unknown: pending, sent, delivered, unknown';
my $unseen = 'unknown: pending, sent, unknown';
my $late = 'succeeded late: pending, sent, delivered, unknown, succeeded late';
my $twice = 'succeeded: pending, sent, delivered, succeeded, repeated';
my $refused = 'expired: pending, sent, delivered, expired';
my $future = 'failed: pending, sent, delivered, failed';
my @columns = ('dispatch', 'queue', 'delivery', 'never');
my %table = (
    # the device            ttl passes before dispatch, in queue, after delivery, never
    'online'             => [ $pending, $queued, $good, $good ],
    'offline'            => [ $pending, $unseen, '-', $unseen ],
    'slow'               => [ $pending, $queued, $good, $good ],
    'gone'               => [ $pending, $queued, $unseen, $good ],        # after receipt, without PUBACK; it comes back
    'mute'               => [ $pending, $queued, $silent, $silent ],
    'late'               => [ $pending, $queued, $late, $late ],
    'twice'              => [ $pending, $queued, $twice, $twice ],
    'qos0'               => [ $pending, $queued, $unseen, $unseen ],
    'hour-fast'          => [ $pending, $queued, $refused, $refused ],    # its clock: the reference device
    'hour-slow'          => [ $pending, $queued, $future, $future ],
);
my @kinds = sort keys %table;

my $s = FleetlogTest->new('matrix');
$s->fleet(devices => 0);
$s->sql('SELECT ' . join ', ', map { my $kind = $_; map { "fleetlog.create_device('$kind-$_', 'acme', password => 'pw-$kind-$_')" } @columns } @kinds);

my %client;
sub login
{
    my ($id) = @_;
    my $qos = $id =~ /^qos0/ ? 0 : 1;
    my $window = $id =~ /^slow/ ? 1 : 20;

    $client{$id} = $s->device($id, clean => 0, properties => [ [ 17, 3000 ], [ 33, $window ] ]);
    is(join(',', $client{$id}->subscribe([ [ "acme/cmd/$id/req/+", $qos ] ])), $qos, "$id listens");
    return $client{$id};
}

sub logout
{
    my (@ids) = @_;
    (delete $client{$_})->disconnect for @ids;
    $s->wait_for('SELECT count(*) FROM fleetlog.stat_session WHERE NOT connected AND device IN (' . join(',', map { "'$_'" } @ids) . ')', scalar @ids, 'sessions to be away');
    return;
}

# One statement commands all of a column; returns the commands by kind.
sub send_all
{
    my ($column, $ttl, $timeout, @of) = @_;
    my $rows = $s->sql('SELECT * FROM (VALUES ' . join(', ', map { "('$_', fleetlog.send_command('acme/$_-$column', 'do', '{}', ttl => '$ttl', answer_timeout => '" . $timeout->($_) . "'))" } @of) . ') v');
    return map { split /\|/ } split /\n/, $rows;
}

sub expired { my ($id) = @_; $s->wait_for("SELECT clock_timestamp() > expires_at FROM fleetlog.command WHERE id = '$id'"); return; }

sub fate
{
    my ($id) = @_;
    return $s->sql("SELECT state || CASE WHEN late THEN ' late' ELSE '' END || ': ' || (SELECT string_agg(event || CASE WHEN e.late THEN ' late' ELSE '' END, ', ' ORDER BY number)
        FROM fleetlog.command_event e WHERE command = id) FROM fleetlog.command WHERE id = '$id'");
}

# The cell's fate, when it has come.
sub cell
{
    my ($column, $kind, $id) = @_;
    my ($n) = grep { $columns[$_] eq $column } 0 .. $#columns;
    my $expected = $table{$kind}[$n];
    my $got;

    eval { FleetlogTest::wait_until(sub { ($got = fate($id)) eq $expected }, "$kind, $column", 60); };
    is($got, $expected, "$kind, ttl passes: $column");
    return;
}

# The next command is the first that the device gets.
sub nothing_before_next
{
    my ($id) = @_;
    $s->sql("SELECT fleetlog.send_command('acme/$id', 'next', '{}')");
    my $p = $client{$id}->expect('PUBLISH');
    is($p->{topic}, "acme/cmd/$id/req/next", "$id: what had expired was not delivered");
    $client{$id}->puback($p->{pid}) if $p->{qos};
    return;
}

sub answer { my ($id, $command, $kind, $payload) = @_; is($client{$id}->publish_acked("acme/cmd/$id/$kind/$command", $payload // ''), 0, "$id answers: $kind"); return; }

# ---- ttl passes before dispatch: nothing leaves, whatever the device is like ----
{
    my @there = grep { $_ ne 'offline' } @kinds;
    login("$_-dispatch") for @kinds;
    logout('offline-dispatch');
    my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'commands'");
    kill 'STOP', $pid;
    my %command = send_all('dispatch', '300 ms', sub { '1 min' }, @kinds);
    expired($_) for values %command;
    kill 'CONT', $pid;
    cell('dispatch', $_, $command{$_}) for @kinds;
    nothing_before_next("$_-dispatch") for @there;
}

# ---- ttl passes in the queue: of a session that is away, of a device whose window is full ----
{
    login("$_-queue") for @kinds;
    logout(map { "$_-queue" } grep { $_ ne 'slow' } @kinds);
    $s->sql("SELECT fleetlog.send_command('acme/slow-queue', 'before', '{}')");
    my $before = $client{'slow-queue'}->expect('PUBLISH');
    my %command = send_all('queue', '3 s', sub { $_[0] eq 'offline' ? '5 s' : '5 min' }, @kinds);
    $s->wait_for("SELECT count(*) FROM fleetlog.command WHERE device ~ '-queue' AND name = 'do' AND state = 'sent'", scalar @kinds, 'all to be sent');
    expired($command{online});
    $client{'slow-queue'}->puback($before->{pid});
    login("$_-queue") for grep { $_ ne 'slow' && $_ ne 'offline' } @kinds;
    nothing_before_next("$_-queue") for grep { $_ ne 'offline' } @kinds;
    cell('queue', $_, $command{$_}) for @kinds;
}

# ---- ttl passes after delivery, or never ----
for my $column ('delivery', 'never')
{
    my @of = grep { $column ne 'delivery' || $_ ne 'offline' } @kinds;
    my $ttl = $column eq 'delivery' ? '5 s' : '10 min';
    my $id = sub { "$_[0]-$column" };

    login($id->($_)) for grep { !/^hour/ } @of;
    logout($id->('offline')) if $column eq 'never';
    my %wrong = map {
        my ($kind, $offset) = @$_;
        ($kind => FleetlogTest::Reference->start(kind => 'c', port => $s->port, user => 'acme/' . $id->($kind), password => 'pw-' . $id->($kind),
                memory => PostgreSQL::Test::Utils::tempdir() . "/$kind-$column", args => [ '--clock-offset', $offset ]))
    } [ 'hour-fast', 3600 ], [ 'hour-slow', -3600 ];
    $_->said('^ready') for values %wrong;
    my %command = send_all($column, $ttl, sub { $_[0] =~ /^(?:offline|mute|late|qos0)$/ || "$_[0] $column" eq 'gone delivery' ? '7 s' : '5 min' }, @of);
    my %got;
    for my $kind (grep { !/^(?:offline$|hour)/ } @of)
    {
        my $p = $got{$kind} = $client{ $id->($kind) }->expect('PUBLISH');
        is(FleetlogTest::Mqtt::property($p, 9), $command{$kind}, $id->($kind) . ' gets its command');
        $client{ $id->($kind) }->puback($p->{pid}) if $p->{qos} && $kind !~ /^(?:slow|gone)$/;
    }
    $client{ $id->('gone') }->reset;
    $wrong{'hour-fast'}->said("^$command{'hour-fast'} do: expired");
    expired($command{online}) if $column eq 'delivery';
    $s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$command{slow}'", 'sent', 'the slow one is not known to have it');
    $client{ $id->('slow') }->puback($got{slow}{pid});
    login($id->('gone'));
    if ($column eq 'delivery') { nothing_before_next($id->('gone')); }
    else
    {
        my $p = $client{ $id->('gone') }->expect('PUBLISH');
        is("$p->{dup} " . FleetlogTest::Mqtt::property($p, 9), "1 $command{gone}", 'gone: it comes again, under the same id');
        $client{ $id->('gone') }->puback($p->{pid});
    }
    $s->wait_for("SELECT count(*) FROM fleetlog.command WHERE id IN ('$command{online}', '$command{slow}', '$command{twice}') AND state = 'delivered'", 3, 'receipts');
    $s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$command{gone}'", 'delivered') if $column eq 'never';
    for my $kind ('online', 'slow', $column eq 'never' ? 'gone' : ())
    {
        answer($id->($kind), $command{$kind}, 'ack');
        answer($id->($kind), $command{$kind}, 'res', 'succeeded');
    }
    answer($id->('twice'), $command{twice}, 'res', $_) for 'succeeded', 'failed';
    $s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$command{late}'", 'unknown', 'the time for an answer to be over');
    answer($id->('late'), $command{late}, 'res', 'succeeded');
    cell($column, $_, $command{$_}) for @of;
    is($_->stop, 0, 'a reference device ends in order') for values %wrong;
}

# ---- the whole way with the reference devices ----
for my $case ([ 'c', 5 ], [ 'c', 4 ], [ 'python', 5 ], [ 'python', 4 ])
{
    my ($kind, $version) = @$case;
  SKIP:
    {
        skip('python3-paho-mqtt is not installed', 1) if $kind eq 'python' && !IPC::Run::run([ '/usr/bin/python3', '-c', 'import paho.mqtt.client' ], '2>', \my $ignored);
        my $device = "ref-$kind-$version";
        $s->sql("SELECT fleetlog.create_device('$device', 'acme', password => 'pw')");
        my $d = FleetlogTest::Reference->start(kind => $kind, port => $s->port, version => $version, user => "acme/$device", password => 'pw', memory => PostgreSQL::Test::Utils::tempdir() . "/$device");
        $d->said('^ready');
        my $id = $s->sql("SELECT fleetlog.send_command('acme/$device', 'set-interval', '{\"seconds\": 7}')");
        $s->wait_for("SELECT state || ' ' || (acknowledged_at IS NOT NULL) FROM fleetlog.command WHERE id = '$id'", 'succeeded true', "$kind, version $version, to answer");
        is($s->sql("SELECT answer FROM fleetlog.command WHERE id = '$id'"), '{"result": {"seconds": 7}, "status": "succeeded"}', "$kind, version $version: a command and its answer");
        $id = $s->sql("SELECT fleetlog.send_command('acme/$device', 'fly', '{}')");
        $s->wait_for("SELECT state || ': ' || detail FROM fleetlog.command WHERE id = '$id'", 'failed: unknown command', "$kind, version $version: what it does not know");
        $d->kill9;
    }
}

# Every delivery that was told is of a command that had not expired then.
is($s->sql("SELECT count(*) FROM fleetlog.command_event e JOIN fleetlog.command c ON c.id = e.command WHERE c.state = 'expired' AND e.event = 'delivered' AND c.device !~ '^hour-fast'"), 0,
    'no command that expired at the server was delivered');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
