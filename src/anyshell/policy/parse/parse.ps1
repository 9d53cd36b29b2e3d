# Report the commands in texts of PowerShell, by PowerShell's own parser. No part of a text is run. On Windows, also report the
# facts of the host that a policy needs.
#
# A question is a line: a number, a blank, and the text in UTF-8 and base64. The answer is a line of JSON, whose texts are
# in UTF-8 and base64 too:
#   n  the number
#   d  the doubts, reasons why the text is not fully understood: each kind of node that is not in $known, and each special
#      feature of a known node
#   c  the commands: p program, or null; s span, in units of UTF-16; i whether the command is piped;
#      a arguments: [text, literal, single, start, end]; r redirections: [operator, text, literal, start, end]
# A question about the host ends with a blank and the word host. The text of that question is pairs of a kind and an argument; a
# NUL ends each kind and each argument:
#   f  the answers: a text, or null for an unknown answer; the names in a directory have the form of `_ASKED` in `verdicts.py`
# This script works in PowerShell 5.1 and 7, and loads no module.
$ErrorActionPreference = 'Stop'
$known = @{}
foreach ($each in -split 'ScriptBlock NamedBlock StatementBlock Pipeline PipelineChain IfStatement Command CommandParameter CommandExpression
  FileRedirection MergingRedirection StringConstantExpression ExpandableStringExpression VariableExpression ConstantExpression
  ArrayLiteral ParenExpression MemberExpression BinaryExpression UnaryExpression AssignmentStatement ExitStatement ReturnStatement
  ThrowStatement') { $known[$each + 'Ast'] = $true }
$operators = -split 'Plus Minus Join Format And Or Ieq Ine Igt Ige Ilt Ile Ilike Inotlike Imatch Inotmatch Ireplace Icontains Inotcontains Iin Inotin Isplit'
$changing = '^(PS|Error|Output|Maximum|Format|Confirm|Debug|Verbose|WhatIf|Warning|Information|Progress|Log|Home$|Pwd$|Profile|OFS$|Host$|Shell|Execution|Event|Transcript|Input$|Args$|This$|Matches$|Null$|True$|False$|Is|Enabled|MyInvocation|Nest|Last|Stack|Sender|Source|foreach$|switch$|Console|Native|Module|Env)'
function Pack($text) { '"' + [Convert]::ToBase64String([Text.Encoding]::UTF8.GetBytes($text)) + '"' }
function Flag($value) { if ($value) { '1' } else { '0' } }
function Span($node) { [string]$node.Extent.StartOffset + ',' + $node.Extent.EndOffset }
function Kind($node) { $node.GetType().Name }
function Read-Word($node) {
    $literal, $single, $text = $false, $false, $node.Extent.Text
    if ((Kind $node) -eq 'StringConstantExpressionAst') {
        $bare = $node.StringConstantType -eq 'BareWord'
        if ($bare -and ($text -match '`' -or ($node.Value -cne $text -and $text -match '[*?[~]'))) { $doubts['a word has an escaped character'] = 1 }
        $text = $node.Value
        $literal = -not ($bare -and $text -match '^~|[*?[\]]')
        $single = $literal
    } elseif ((Kind $node) -eq 'ConstantExpressionAst') {
        $literal = $single = $text -match '^-?(0|[1-9][0-9]{0,8})$'
    } elseif ((Kind $node) -eq 'ExpandableStringExpressionAst') { $single = $true }
    $text; $literal; $single
}
function Read-Element($node) {
    $text, $literal, $single = $node.Extent.Text, $true, $true
    if ((Kind $node) -ne 'CommandParameterAst') { $text, $literal, $single = Read-Word $node }
    elseif ($node.Argument) {
        $name = '-' + $node.ParameterName + ':'
        if ($node.Argument.Extent.StartOffset - $node.Extent.StartOffset -ne $name.Length) { $doubts['a parameter stands apart from its value'] = 1 }
        $text, $literal, $single = Read-Word $node.Argument
        $text = $name + $text
    } elseif ($text -notmatch '^-([\w?][\w./\\:=+%^~!-]*|-)$') { $doubts['a parameter is written in an unusual way'] = 1 }
    '[' + (Pack $text) + ',' + (Flag $literal) + ',' + (Flag $single) + ',' + (Span $node) + ']'
}
function Read-Redirection($node) {
    if ((Kind $node) -ne 'FileRedirectionAst') { return }
    $to = $node.Location
    if ((Kind $to) -eq 'VariableExpressionAst' -and $to.Extent.Text -eq '$null') { return }
    $text, $literal, $single = Read-Word $to
    '["' + $(if ($node.Append) { '>>' } else { '>' }) + '",' + (Pack $text) + ',' + (Flag $literal) + ',' + (Span $to) + ']'
}
function Read-Command($node) {
    $program, $words = 'null', @()
    if ((Kind $node) -eq 'CommandAst') {
        if ($node.InvocationOperator -ne 'Unknown') { $doubts['a program is called by an operator'] = 1 }
        if ($node.DefiningKeyword) { $doubts['a keyword is defined elsewhere'] = 1 }
        $first, $rest = $node.CommandElements
        $named = (Kind $first) -eq 'StringConstantExpressionAst' -and $first.StringConstantType -eq 'BareWord'
        if ($named -and $first.Value -ceq $first.Extent.Text) { $program = Pack $first.Value } else { $doubts['the program is not literal'] = 1 }
        $before = $first
        $words = @(foreach ($each in $rest) {
            if ($each.Extent.StartOffset -le $before.Extent.EndOffset) { $doubts['words stand together'] = 1 }
            $before = $each
            Read-Element $each
        })
    } else { $program = '""' }
    $to = @(foreach ($each in $node.Redirections) { Read-Redirection $each })
    if ($program -eq '""' -and -not $to) { return }
    $piped = (Kind $node.Parent) -eq 'PipelineAst' -and $node.Parent.PipelineElements[0] -ne $node
    '{"p":' + $program + ',"s":[' + (Span $node) + '],"i":' + (Flag $piped) + ',"a":[' + ($words -join ',') + '],"r":[' + ($to -join ',') + ']}'
}
# Return the commands of a text. Every node of the tree is examined: an unknown node, or a special feature of one, adds a doubt.
function Read-Text($text) {
    $tokens = $errors = $null
    $tree = [Management.Automation.Language.Parser]::ParseInput($text, [ref]$tokens, [ref]$errors)
    if ($errors) { $doubts['it does not parse'] = 1 }
    $end = $tree.EndBlock
    foreach ($each in 'ParamBlock', 'DynamicParamBlock', 'BeginBlock', 'ProcessBlock', 'CleanBlock', 'UsingStatements', 'ScriptRequirements', 'Attributes') {
        if ($tree.$each) { $doubts[$each + ' is not read'] = 1 }
    }
    if ($end -and (-not $end.Unnamed -or $end.Traps)) { $doubts['a block is not read'] = 1 }
    $nodes = @($tree.FindAll({ $true }, $true))
    if ($nodes.Count -gt 6000) { $doubts['the text is too large'] = 1; return }
    foreach ($node in $nodes) {
        $kind = Kind $node
        if (-not $known[$kind] -or ($kind -eq 'ScriptBlockAst' -and $node -ne $tree)) { $doubts[$kind + ' is not read'] = 1 }
        switch ($kind) {
            'PipelineAst' { if ($node.Background) { $doubts['it goes on in the background'] = 1 } }
            'PipelineChainAst' { if ($node.Background) { $doubts['it goes on in the background'] = 1 } }
            'VariableExpressionAst' {
                $path = $node.VariablePath
                if ($node.Splatted -or -not ($path.IsUnqualified -or $path.DriveName -eq 'env')) { $doubts['a variable is not read'] = 1 }
            }
            'MemberExpressionAst' {
                if ($node.Static -or (Kind $node.Member) -ne 'StringConstantExpressionAst') { $doubts['a member is not read'] = 1 }
            }
            'BinaryExpressionAst' {
                if ($operators -notcontains $node.Operator) { $doubts['an operator is not read'] = 1 }
                $right = if ((Kind $node.Right) -eq 'ArrayLiteralAst') { $node.Right.Elements } else { $node.Right }
                $texts = 'StringConstantExpressionAst', 'ExpandableStringExpressionAst', 'ConstantExpressionAst'
                if ('Ireplace', 'Isplit' -contains $node.Operator -and @($right | & { process { if ($texts -notcontains (Kind $_)) { 1 } } })) {
                    $doubts['an operator may run a script block'] = 1
                }
            }
            'UnaryExpressionAst' { if ('Not', 'Exclaim', 'Minus' -notcontains $node.TokenKind) { $doubts['an operator is not read'] = 1 } }
            'AssignmentStatementAst' {
                $left = $node.Left
                $plain = (Kind $left) -eq 'VariableExpressionAst' -and $left.VariablePath.IsUnqualified
                if (-not $plain -or $left.VariablePath.UserPath -notmatch '^[a-z]\w*$' -or $left.VariablePath.UserPath -match $changing) {
                    $doubts['a variable is changed that may change what is run'] = 1
                }
            }
            'CommandAst' { Read-Command $node }
            'CommandExpressionAst' { Read-Command $node }
        }
    }
}
function Get-Entry($directory, $name) { ([IO.DirectoryInfo]$directory).GetFileSystemInfos($name) }
function Resolve-Links($path, $left) {
    # GetFullPath removes .. as text, as Windows does. A path of which it makes one of another form, such as NUL, is not a file.
    $path = [IO.Path]::GetFullPath($path)
    if ($left -lt 0 -or $path -notmatch '^[A-Za-z]:\\[^:*?<>|"\0]*$') { return }
    $at, $names = $path.Substring(0, 3).ToUpperInvariant(), @($path.Substring(3).Split('\') | & { process { if ($_) { $_ } } })
    for ($i = 0; $i -lt $names.Count; $i++) {
        $rest = $names[($i + 1)..$names.Count] -join '\'
        $found = @(Get-Entry $at $names[$i])
        if (-not $found) {
            # A name with ~ may be the short name of a file, which is not among the listed names.
            if (($names[$i] + $rest).Contains('~')) { return }
            return [IO.Path]::Combine($at, $names[$i], $rest).TrimEnd('\')
        }
        if ([int]$found[0].Attributes -band 1024) {
            if ($found[0].LinkType -notmatch '^(SymbolicLink|Junction)$' -or -not $found[0].Target) { return }
            return Resolve-Links ([IO.Path]::Combine($at, @($found[0].Target)[0], $rest)) ($left - 1)
        }
        $at = [IO.Path]::Combine($at, $found[0].Name)
    }
    $at
}
function Find-Program($name) {
    $directories = @($env:PATH.Split(';') | & { process { if ($_) { $_ } } })
    if (@($directories) -notmatch '^[A-Za-z]:[\\/]') { return }
    $found = if ($name -match '\.ps1$') {
        @($directories | & { process { $file = [IO.Path]::Combine($_, $name); if ([IO.File]::Exists($file)) { $file } } })[0]
    } else { $ExecutionContext.InvokeCommand.GetCommand($name, 'Application').Path }
    if (-not $found) { return '' }
    $directory = Resolve-Links ([IO.Path]::GetDirectoryName($found)) 40
    if ($directory) { [IO.Path]::Combine($directory, [IO.Path]::GetFileName($found)) }
}
function Get-Names($path) {
    $names = [Text.StringBuilder]::new(' /')
    if ([IO.File]::Exists($path)) { return "$names" }
    $count = 0
    try {
        foreach ($each in ([IO.DirectoryInfo]$path).EnumerateFileSystemInfos()) {
            if (++$count -gt 10000) { return }
            $kind = if ([int]$each.Attributes -band 1024) { '@' } elseif ([int]$each.Attributes -band 16) { ':' } else { ' ' }
            [void]$names.Append($each.Name + $kind + '/')
        }
    } catch [IO.DirectoryNotFoundException] { }
    "$names"
}
function Read-Host-Fact($kind, $name) {
    try {
        switch ($kind) {
            'home' { if (-not $env:HOME -or $env:HOME -eq $HOME) { $HOME } }
            'find' { Find-Program $name }
            'resolve' { Resolve-Links $name 40 }
            'names' { Get-Names $name }
        }
    } catch { }
}
while ($null -ne ($line = [Console]::In.ReadLine())) {
    $number, $packed, $about = $line.Split(' ')
    $text = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String($packed))
    if ($about) {
        $asked = $text.Split([char]0)
        $told = @(for ($at = 0; $at + 1 -lt $asked.Count; $at += 2) {
            $fact = Read-Host-Fact $asked[$at] $asked[$at + 1]
            if ($null -eq $fact) { 'null' } else { Pack $fact }
        })
        [Console]::Out.WriteLine('{"n":' + $number + ',"f":[' + ($told -join ',') + ']}')
        [Console]::Out.Flush()
        continue
    }
    $doubts = [ordered]@{}
    try { $commands = @(Read-Text $text) }
    catch { $commands = @(); $doubts['its parser fails'] = 1 }
    $why = @(foreach ($each in $doubts.Keys) { Pack $each })
    [Console]::Out.WriteLine('{"n":' + $number + ',"d":[' + ($why -join ',') + '],"c":[' + ($commands -join ',') + ']}')
    [Console]::Out.Flush()
}
