# C3: a job gives each device of a query one command, in waves and no more at a time than its concurrency; it stops itself at
# the failure rate; paused, resumed, and over kill -9, no device is commanded twice; its query can do no more than its caller.
use strict;
use warnings;
use Test::More;
use IO::Select;
use Time::HiRes qw(time);
use FleetlogTest;

my $n = 40;
my $s = FleetlogTest->new('jobs');
$s->fleet(devices => $n);
$s->sql("SELECT fleetlog.create_tenant('beta', 'beta/'), fleetlog.create_device('b1', 'beta', password => 'x')");
my %dev = map { ("d$_" => { id => "d$_", says => 'succeeded', got => {}, queue => [] }) } 1 .. $n;

sub connect_one
{
    my ($d) = @_;
    my $c = FleetlogTest::Mqtt->open($s->port, version => 5);
    my $ack = $c->login(client_id => $d->{id}, user => "acme/$d->{id}", password => "pw-$d->{id}", clean => 0, properties => [ [ 17, 3000 ] ]);

    die "$d->{id} was refused" unless ref $ack && $ack->{reason} == 0;
    $d->{c} = $c;
    $c->subscribe([ [ "acme/cmd/$d->{id}/req/+", 1 ] ]) unless $d->{subscribed}++;
    $d->{unacked} = { map { my $p = $c->publish(@$_, qos => 1); ($p => $_) } values %{ $d->{unacked} // {} } };
    return;
}

# Each device answers as it was told to; '' is nothing at all.
sub serve
{
    for my $d (values %dev)
    {
        next unless $d->{c};
        $d->{c}->fill if IO::Select->new($d->{c}{socket})->can_read(0);
        while (ref(my $p = $d->{c}->read_packet(0)))
        {
            delete $d->{unacked}{ $p->{pid} } if $p->{name} eq 'PUBACK';
            next unless $p->{name} eq 'PUBLISH';
            my $id = FleetlogTest::Mqtt::property($p, 9);
            $d->{got}{ $p->{topic} }{$id}++;
            $d->{c}->puback($p->{pid});
            next if $d->{says} eq '';
            my @answer = ("acme/cmd/$d->{id}/res/$id", $d->{says});
            $d->{unacked}{ $d->{c}->publish(@answer, qos => 1) } = \@answer;
        }
    }
    return;
}

sub until_sql
{
    my ($query, $expected, $what) = @_;
    my $end = time + $FleetlogTest::TIMEOUT;
    my $got = '';

    while (time < $end && $got ne $expected)
    {
        for (1 .. 10) { serve(); select(undef, undef, undef, 0.005); }
        $got = $s->sql($query);
    }
    is($got, $expected, $what);
    return;
}

sub job { my ($name, $what) = @_; return $s->sql("SELECT $what FROM fleetlog.job WHERE name = '$name'"); }
sub twice { my ($name) = @_; return scalar grep { keys %{ $_->{got}{"acme/cmd/$_->{id}/req/$name"} // {} } > 1 } values %dev; }
sub commanded { my ($name) = @_; return scalar grep { $_->{got}{"acme/cmd/$_->{id}/req/$name"} } values %dev; }

connect_one($_) for values %dev;

# ---- what is refused ----

my %refused = (
    'an unknown device' => [ q{'j', 'x', '1', 'SELECT ''acme/nobody'''}, qr/42704.*device "acme\/nobody" does not exist/ ],
    'NULL' => [ q{'j', 'x', '1', 'SELECT NULL::text'}, qr/22004/ ],
    'no device' => [ q{'j', 'x', '1', 'SELECT id FROM fleetlog.device WHERE false'}, qr/P0002.*names no device/ ],
    'no query' => [ q{'j', 'x', '1', 'VACUUM'}, qr/22023/ ],
    'a query that writes' => [ q{'j', 'x', '1', 'DELETE FROM fleetlog.device RETURNING id'}, qr/25006|0A000|22023|42501/ ],
    'two statements' => [ q{'j', 'x', '1', 'SELECT 1; SELECT 2'}, qr/22023/ ],
    'a wave of none' => [ q{'j', 'x', '1', 'SELECT ''d1''', 0}, qr/22023/ ],
    'a rate above 1' => [ q{'j', 'x', '1', 'SELECT ''d1''', stop_at_failure_rate => 1.5}, qr/22023/ ],
    'a bad name' => [ q{'j', 'a/b', '1', 'SELECT ''d1'''}, qr/22023/ ]);
for my $what (sort keys %refused)
{
    like($s->sql_error("SELECT fleetlog.create_job($refused{$what}[0])") // 'nothing', $refused{$what}[1], "refused: $what");
}
$s->sql(q{CREATE ROLE ops; SELECT fleetlog.allow_commands('acme', 'ops'); GRANT EXECUTE ON FUNCTION fleetlog.create_job(text, text, jsonb, text, int, interval, float8, int, interval), fleetlog.pause_job(text) TO ops;
    CREATE TABLE secret (device text); INSERT INTO secret VALUES ('acme/d1')});
like($s->sql_error(q{SET ROLE ops; SELECT fleetlog.create_job('j', 'x', '1', 'SELECT device FROM secret')}), qr/42501.*secret/, 'the query is run as the caller');
like($s->sql_error(q{SET ROLE ops; SELECT fleetlog.create_job('j', 'x', '1', 'SELECT unnest(ARRAY[''acme/d1'', ''beta/b1''])')}), qr/42501.*tenant "beta"/, 'no device of another tenant');
is($s->sql('SELECT count(*) FROM fleetlog.job'), 0, 'none of them left a job');

# ---- waves and concurrency ----

is($s->sql(q{SELECT fleetlog.create_job('first', 'first', '{"v": 2}', 'SELECT ''acme/'' || id FROM fleetlog.device WHERE tenant = ''acme'' UNION ALL SELECT ''d1''', 10, concurrency => 4)}), $n,
    'a job to 40 devices, one of which is named twice');
until_sql("SELECT state FROM fleetlog.job WHERE name = 'first'", 'finished', 'it ends when all have answered');
is(job('first', q{waves || ' ' || wave || ' ' || waiting || ' ' || open || ' ' || succeeded || ' ' || progress}), "4 4 0 0 $n 100.0", 'its row says so');
is(commanded('first'), $n, 'each device was commanded');
is(twice('first'), 0, 'once');
is($s->sql(q{SELECT max(open) FROM (SELECT (SELECT count(*) FROM fleetlog.command o WHERE o.job = 'first' AND o.issued_at <= c.issued_at AND coalesce(o.finished_at, 'infinity') > c.issued_at) AS open FROM fleetlog.command c WHERE c.job = 'first') x}) <= 4,
    1, 'never more than four at a time');
is($s->sql(q{SELECT bool_and(begun >= over) FROM (SELECT (t.number - 1) / 10 AS w, min(c.issued_at) AS begun, lag(max(c.finished_at)) OVER (ORDER BY (t.number - 1) / 10) AS over
    FROM fleetlog.job_target t JOIN fleetlog.command c ON c.id = t.command WHERE t.job = 'first' GROUP BY 1) w}), 't', 'a wave begins when the last one is over');

# ---- it stops itself ----

$dev{"d$_"}{says} = 'failed' for 12 .. 14;
$s->sql(q{SELECT fleetlog.create_job('bad', 'bad', '1', 'SELECT id FROM fleetlog.device WHERE tenant = ''acme'' ORDER BY substr(id, 2)::int', 10, stop_at_failure_rate => 0.15)});
until_sql("SELECT state FROM fleetlog.job WHERE name = 'bad'", 'stopped', 'three failures of the twenty devices of two waves: it stops');
is(job('bad', q{succeeded || ' ' || failed || ' ' || waiting || ' ' || failure_rate || ' ' || detail}), '17 3 20 0.15 3 of 20 devices of the waves begun did not succeed', 'and says why') if job('bad', 'open') eq '0';
my $before = commanded('bad');
is($before, 20, 'the third wave was not begun');
like($s->sql_error("SELECT fleetlog.pause_job('bad')"), qr/55000/, 'what has stopped is not paused');
$s->sql("SELECT fleetlog.resume_job('bad', stop_at_failure_rate => 0.5)");
until_sql("SELECT state FROM fleetlog.job WHERE name = 'bad'", 'finished', 'with a higher rate it goes on, to its end');
is(commanded('bad') . ' ' . twice('bad'), "$n 0", 'and no device got it twice');

# Silence is a failure as well.
$_->{says} = '' for values %dev;
$s->sql(q{SELECT fleetlog.create_job('mute', 'mute', '1', 'SELECT id FROM fleetlog.device WHERE tenant = ''acme''', 5, ttl => '1 s', stop_at_failure_rate => 1, answer_timeout => '1500 ms')});
until_sql("SELECT state FROM fleetlog.job WHERE name = 'mute'", 'stopped', 'nobody answers: it stops after the first wave');
is(job('mute', q{unknown || ' ' || waiting}), '5 35', 'whose commands are unknown');
$_->{says} = 'succeeded' for values %dev;

# ---- pause, resume, kill -9 ----

$s->sql(q{SELECT fleetlog.create_job('long', 'long', '1', 'SELECT id FROM fleetlog.device WHERE tenant = ''acme''', 3)});
for my $round (1 .. 3)
{
    my $at = job('long', 'succeeded');
    until_sql("SELECT state <> 'running' OR succeeded >= least(40, $at + 2) FROM fleetlog.job WHERE name = 'long'", 't', "round $round: it goes on");
    last if job('long', 'state') ne 'running';
    $s->sql("SELECT fleetlog.pause_job('long')");
    until_sql("SELECT open FROM fleetlog.job WHERE name = 'long'", '0', "round $round: paused, what is under way comes to its end");
    my $issued = job('long', 'targets - waiting');
    $s->stop_points('job_issued') if $round > 1;
    $s->sql("SELECT fleetlog.resume_job('long')");
    if ($round > 1)
    {
        $s->wait_stopped_at('job_issued');
        is(job('long', 'targets - waiting'), $issued, "round $round: nothing was issued while it was paused");
        $s->kill9;
        $s->set_conf();
        $_->{c}->close for values %dev;
        $s->start_after_crash;
        connect_one($_) for values %dev;
    }
}
until_sql("SELECT state FROM fleetlog.job WHERE name = 'long'", 'finished', 'after pauses and crashes it comes to its end');
is(commanded('long') . ' ' . twice('long'), "$n 0", 'each device got it, under one id');
is($s->sql("SELECT count(*) || ' ' || count(DISTINCT device) FROM fleetlog.command WHERE job = 'long'"), "$n $n", 'and has one row');

# ---- cancel ----

$_->{says} = '' for values %dev;
$s->sql(q{SELECT fleetlog.create_job('off', 'off', '1', 'SELECT id FROM fleetlog.device WHERE tenant = ''acme''', 5)});
until_sql("SELECT count(*) FROM fleetlog.command WHERE job = 'off' AND state = 'delivered'", '5', 'a wave is under way');
$s->sql("SELECT fleetlog.cancel_job('off')");
$_->{says} = 'succeeded' for values %dev;
is(job('off', q{state || ' ' || waiting || ' ' || open}), 'cancelled 35 5', 'cancelled: no more are issued, those under way go on');
like($s->sql_error("SELECT fleetlog.resume_job('off')"), qr/55000/, 'and it cannot be resumed');
like($s->sql_error("SELECT fleetlog.cancel_job('nothing')"), qr/42704/, 'an unknown job is an error');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
